"""The gateway: gRPC for programs in any language, in a process of its own that is a client of the cluster."""
