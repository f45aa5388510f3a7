# A service of yours in an image: a package in a registry.
#
#     docker build --build-arg PACKAGE=tally==1.0 -t tally -f examples/image/by-name.Dockerfile examples/image
ARG ORDO_IMAGE=ordo
FROM ${ORDO_IMAGE}
ARG PIP_NO_INDEX=
ARG PIP_FIND_LINKS=
ARG PACKAGE
USER root
RUN pip install --no-cache-dir "${PACKAGE}"
USER 10001
