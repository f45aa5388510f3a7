# Ordo: every command works in a fresh clone with Python 3.11 or later and a C compiler.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
JOBS ?= 2
# Tests of processes wait for most of their time: fewer lanes leave cores to nobody.
LANES ?= $(shell echo $$((2 * $(JOBS))))
SEEDS ?= 100
FIRST ?= 1
FUZZ_SECONDS ?= 600
PYTHONS ?= 3.12 3.13
ASAN_TESTS := tests/runtime tests/transport tests/archive tests/fuzz tests/service_api/messages \
	tests/sequencer/test_live_stream.py \
	tests/cluster/client/test_requests.py tests/cluster/container/test_message_runs.py tests/cluster/container/test_outbox.py \
	tests/cluster/module/test_prompt_commits.py tests/cluster/module/test_sequencer.py tests/cluster/wire/test_commit_hint.py
SANITIZED = ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1 PYTHONMALLOC=malloc \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $(CURDIR)/build/asan/libcoverage.so"
BIN := .venv/bin
# What a process compiled is kept for the next, whatever the shell says: a node starts in two thirds of the time.
export PYTHONDONTWRITEBYTECODE :=
DEBUG_FOLDERS := runtime,transport,archive,consensus,service_api,sequencer,cluster,gateway/kafka/service,tests
DEMO_FOLDERS := runtime,transport,archive,consensus,service_api,sequencer,cluster
SOURCES := setup.py $(shell find . -path ./.venv -prune -o -path ./build -prune -o \
	\( -name '*.pyx' -o -name '*.pxd' -o -name '*.h' \) -print)

# $(call chosen,test,SUITE): the target test-wheel for SUITE=wheel, or an error that lists what there is.
others = $(shell sed -n 's/^$(1)-\([a-z0-9-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)) | sort)
chosen = $(or $(addprefix $(1)-,$(filter $(call others,$(1)),$($(2)))),\
	$(error $(2)=$($(2)) is not there: choose one of $(call others,$(1))))

.DEFAULT_GOAL := help
.PHONY: help build extras verify style fix test test-deterministic test-processes test-under-load nightly demo bench budget bench-transport bench-peers bench-attacks sim seeds explore test-thorough test-soak soak test-faults test-nemesis test-sessions test-debug sanitized fuzz test-asan \
	bench-kafka bench-readers bench-standby bench-replays bench-search bench-buffers bench-messages bench-pipeline bench-memory bench-streaming debug clean docs site coverage test-python test-wheel test-releases test-stores test-clients test-mutants test-aeron-suite test-arm64 test-docker test-kubernetes pictures release

# What follows ## is in `make help`, what follows #: with ALL=1 only.
help:
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
ifdef ALL
	@echo
	@awk -F ':.*#: ' '/^[a-z0-9-]+:.*#: /{ sub(/^test-/, "test SUITE=", $$1); sub(/^bench-/, "bench NAME=", $$1); \
		printf "  make %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
else
	@echo "  make help ALL=1 shows the others"
endif

build: build/.built ## set up .venv and build the native modules

extras: .venv/.core #: install the packages of extras into .venv: EXTRAS=gateway,local; all of them by default
	@echo "installing $(EXTRAS) ..."
	@$(EDITABLE) '.[$(EXTRAS)]'

PIP := $(BIN)/python -m pip install -q --disable-pip-version-check
EDITABLE := ORDO_ONLY=none $(PIP) --no-build-isolation -e
COMPILE := ORDO_THREADS=$(JOBS) $(BIN)/python -m tools.compile
EXTRAS ?= pipeline,connect,local,delta,iceberg,s3,gateway,kafka,otel,docker

.venv/.core: pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later found: install one or call make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up .venv (once; a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test .venv/.base -nt pyproject.toml || { $(PIP) 'setuptools>=77' wheel 'cython>=3.1' && $(EDITABLE) .; }
	@touch $@

.venv/.base: pyproject.toml | .venv/.core
	@echo "installing the tools of developers (once; a minute or two) ..."
	@$(EDITABLE) '.[dev]'
	@touch $@

.venv/.all: .venv/.base
	@echo "installing what tests of all extras need (once; some minutes) ..."
	@$(EDITABLE) '.[dev,pipeline,connect,local,delta,iceberg,s3,s3-tests,gateway,kafka,otel,docker]'
	@touch $@

build/.built: .venv/.base $(SOURCES)
	@mkdir -p build
	@$(COMPILE) build/build.log
	@touch $@ build/.demo

# What `make demo` needs: no pipeline, no tests, no developer's tools.
build/.demo: .venv/.core $(SOURCES)
	@mkdir -p build
	@ORDO_ONLY=$(DEMO_FOLDERS) $(COMPILE) build/build.log
	@touch $@

verify: build .venv/.all ## check style, types and the rules of the house; writes nothing
	@status=0; \
	$(BIN)/mypy & types=$$!; \
	$(MAKE) -s style || status=1; \
	$(BIN)/python -m tools.verify || status=1; \
	wait $$types || status=1; \
	exit $$status

style: .venv/.base #: check style and format alone, in a second; `make verify` does this and much more
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

fix: build ## format and repair what can be repaired
	$(BIN)/python -m tools.records
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python -m tools.configuration
	$(BIN)/python -m tools.metrics_page
	$(BIN)/python -m tools.errors_page
	$(BIN)/python -m tools.house_page
	$(BIN)/python -m tools.top_picture

# What needs nothing but this checkout; `make nightly` has the others, and each of them a target.
HERE := not nightly
TIERS = $(BIN)/python -m tools.suite --jobs $(JOBS) --lanes $(LANES) --args="$(ARGS)"

ifeq ($(origin SUITE),command line)
test: $(call chosen,test,SUITE)
else
test: build .venv/.all ## pass all tests; ARGS=tests/archive those of a folder, TIER=processes those of real processes, SUITE=wheel another suite
	@$(TIERS) $(if $(TIER),--tier $(TIER))
endif

test-deterministic: build .venv/.all #: pass the tests that no busy machine can break, as TIER=deterministic does
	@$(TIERS) --tier deterministic

test-processes: build .venv/.all #: pass the tests of real processes, as TIER=processes does: LANES=4
	@$(TIERS) --tier processes

test-under-load: build .venv/.all #: pass all tests again and again beside busy loops: RUNS=20 LOADS="2 6" ARGS=tests/cluster
	@$(TIERS) $(if $(TIER),--tier $(TIER)) --runs $(or $(RUNS),20) --loads "$(or $(LOADS),2 6)"

nightly: build .venv/.all #: run what takes long, and write build/nightly/: ONLY="soak fuzz"
	@$(BIN)/python -m tools.nightly $(ONLY)

# The processes that tests start, and what Cython compiled, are not seen.
coverage: build .venv/.all #: Python line coverage of the quick tests: build/coverage/index.html; ARGS=tests/archive
	@mkdir -p build/coverage && COVERAGE_FILE=build/coverage/data $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile \
		-m 'not slow and not spark and $(HERE)' \
		--cov --cov-report=html:build/coverage --cov-report=term:skip-covered $(ARGS)

test-python: build #: pass quick tests with other Pythons: PYTHONS="3.12 /usr/bin/python3.13"
	@$(PYTHON) -m tools.pythons --jobs $(JOBS) $(PYTHONS)

test-arm64: .venv/.base #: cross-compile for arm64, pass unit tests under qemu; needs Debian packages that it names
	@$(BIN)/python -m tools.arm64 --jobs $(JOBS) $(ARGS)

docs: build .venv/.all #: write the API reference into build/docs; fails on what is missing or undocumented
	@$(BIN)/python -m tools.reference

site: build .venv/.all #: build the documentation site into build/site; fails on broken links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo build/site/index.html

demo: build/.demo ## run three nodes and a matching engine; ITCH=file plays recorded orders
	$(BIN)/ordo demo $(if $(ITCH),--itch $(ITCH))

PICTURES := $(addprefix console-,idle-1280 idle-390 load-1280 load-390 dead-1280 dead-390) dashboard-1280

pictures: build .venv/.all #: take the console's and the dashboard's pictures in docs/pictures anew; needs chromium, prometheus
	@mkdir -p build/pictures
	@ORDO_PICTURES=$(CURDIR)/build/pictures ORDO_PICTURES_LOAD_MS=30000 \
		$(BIN)/python -m pytest -q -n0 tests/gateway/console/test_page.py tests/deploy/test_dashboard.py
	@for one in $(PICTURES); do cp build/pictures/$$one.png docs/pictures/; done

ifeq ($(origin NAME),command line)
bench: $(call chosen,bench,NAME)
else
bench: build ## measure on this machine; JSON=file keeps the figures, NAME=transport measures something else
	$(BIN)/ordo bench all $(if $(JSON),--json $(JSON))
endif

budget: build #: count anew what a message costs, and write tests/budget/table.json; needs strace and valgrind
	$(BIN)/python -m tests.budget.counts

sim: build #: simulate clusters under faults: SEEDS=100 FIRST=1 JOBS=2
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS)

seeds: build #: go on with the seeds that are left of SEEDS=100000 on this code, in build/seeds/: MINUTES=60 JOBS=2
	$(BIN)/python -m tests.simulation.campaign --seeds $(if $(filter file,$(origin SEEDS)),100000,$(SEEDS)) \
		--minutes $(or $(MINUTES),60) --jobs $(JOBS)

explore: build #: go through every order of events within bounds: STATES=100000 of each, WALKS=500, JOBS=2
	$(BIN)/python -m tests.exploration --states $(or $(STATES),100000) --walks $(or $(WALKS),500) --jobs $(JOBS) --model

test-thorough: build .venv/.all #: find every bug that is planted in simulated clusters, and go through further seeds, mutants and counts; CI does
	$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m thorough $(ARGS)

SOAKS := tests/transport/test_soak.py tests/cluster/integration/test_soak.py tests/gateway/kafka/test_soak.py

test-soak: build .venv/.all #: pass the tests that take minutes: whole benchmarks, a streaming query killed with SIGKILL, an older Aeron, Spark's clusters, an application each second, a driver, a cluster and a door for Kafka's clients for five minutes
	$(BIN)/python -m pytest -q -n0 -m soak $(addprefix --ignore=,$(SOAKS)) $(ARGS)
	SOAK_MINUTES=5 $(BIN)/python -m pytest -q -n0 $(SOAKS)
	ORDO_CONSENSUS_SEEDS=2000 $(BIN)/python -m pytest -q -n $(JOBS) tests/consensus/test_simulation.py

soak: build #: work at half speed for MINUTES=60: one driver with loss, slow, stopped and killed clients; then a cluster with a snapshot a minute; then ordo kafka with a group whose members come and go
	SOAK_MINUTES=$(or $(MINUTES),60) $(BIN)/python -m pytest -q -n0 -s $(or $(ARGS),$(SOAKS))

NEMESIS_VERDICT := build/nemesis/verdict.txt

test-faults: build .venv/.all #: kill, stop, partition and fill the disk of real processes; needs root
	@rm -f $(NEMESIS_VERDICT)
	FAULT_VERDICT=$(NEMESIS_VERDICT) $(BIN)/python -m pytest -q -n0 -m root $(ARGS)
	@if [ -f $(NEMESIS_VERDICT) ]; then cat $(NEMESIS_VERDICT); fi

test-nemesis: build .venv/.all #: bring faults and accidents of all kinds over real processes: MINUTES=10, FAULT_SEED=7; needs root
	FAULT_SECONDS=$$((60 * $(or $(MINUTES),10))) FAULT_VERDICT=$(NEMESIS_VERDICT) \
		$(BIN)/python -m pytest -q -n0 -s -m root tests/faults/test_nemesis.py $(ARGS)
	@cat $(NEMESIS_VERDICT)

test-sessions: build .venv/.all #: open as many sessions as the default allows, and one more: SESSIONS=4096
	SESSIONS=$(or $(SESSIONS),4096) $(BIN)/python -m pytest -q -n0 -s tests/cluster/integration/test_many_sessions.py

sanitized: .venv/.base
	@mkdir -p build/asan && git ls-files -co --exclude-standard -z | \
		tar --null --ignore-failed-read -T - -cf - 2>/dev/null | tar -xf - -C build/asan
	@cd build/asan && gcc -O2 -shared -fPIC -o libcoverage.so tests/fuzz/coverage.c && \
		ORDO_SANITIZE=1 ORDO_THREADS=$(JOBS) $(CURDIR)/$(BIN)/python -m tools.compile build.log

fuzz: sanitized #: fuzz every door with ASan: FUZZ_SECONDS=600 each, DOORS="datagrams logs"
	@cd build/asan && $(SANITIZED) $(CURDIR)/$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) \
		--out $(CURDIR)/build/fuzz $(DOORS)

test-asan: sanitized #: pass the native tests with ASan and UBSan
	@cd build/asan && $(SANITIZED) $(CURDIR)/$(BIN)/python -m pytest -q -n0 -p no:cacheprovider --timeout=900 \
		$(or $(ARGS),$(ASAN_TESTS))

bench-transport: build #: measure streams beside Aeron's Java driver in one run, about 4 minutes; WRITE=1 into docs/PERFORMANCE.md
	$(BIN)/python -m benchmarks.transport $(if $(QUICK),--quick) $(if $(WRITE),--write) $(if $(JSON),--json $(JSON))

bench-peers: build #: measure clusters beside Aeron's, etcd and NATS, about 5 minutes; WRITE=1 into docs/design/PERFORMANCE-NOTES.md
	$(BIN)/python -m benchmarks.peers $(if $(QUICK),--quick) $(if $(WRITE),--write) $(if $(JSON),--json $(JSON)) $(ARGS)

bench-attacks: build #: measure what a flood of datagrams costs a cluster; JSON=file keeps the figures
	$(BIN)/python -m benchmarks.attacks $(if $(JSON),--json $(JSON))

bench-kafka: build .venv/.all #: measure ordo kafka beside Kafka brokers from Maven, as many as members, with one client, about 5 minutes; JSON=file ARGS="--members 3 --sync commit"
	$(BIN)/python -m benchmarks.kafka $(if $(JSON),--json $(JSON)) $(ARGS)

bench-readers: build #: measure readers of the log, one that catches up, and an application; JSON=file keeps the figures
	$(BIN)/python -m benchmarks.readers $(if $(JSON),--json $(JSON))

bench-standby: build #: measure what a standby costs its primary, in pairs with and without; JSON=file keeps the figures
	$(BIN)/python -m benchmarks.standby $(if $(JSON),--json $(JSON)) $(ARGS)

bench-replays: build #: measure a reader that catches up with an archive, beside Aeron's in one run; ARGS=--no-java
	$(BIN)/python -m benchmarks.replays $(if $(JSON),--json $(JSON)) $(ARGS)

bench-search: build #: measure how long a number or a time is looked for in 100 GiB of log; ARGS="--gib 10"
	$(BIN)/python -m benchmarks.log_search $(ARGS)

bench-buffers: build #: measure the longest duty cycle while streams and sessions begin and end; JSON=file ARGS="--streams 200 --sessions 200"
	$(BIN)/python -m benchmarks.log_buffers $(if $(JSON),--json $(JSON)) $(ARGS)

bench-messages: build .venv/.all #: measure codecs of messages beside struct, msgspec (if installed), protobuf and Java's SBE in one run; JSON=file keeps the figures
	$(BIN)/python -m benchmarks.messages $(if $(JSON),--json $(JSON)) $(ARGS)

bench-pipeline: build .venv/.all #: measure the data pipeline
	$(BIN)/python -m benchmarks.pipeline $(if $(JSON),--json $(JSON))

bench-memory: build .venv/.all #: measure what jobs of the pipeline hold in memory: MESSAGES=2000000,20000000 ARGS="--jobs audit"
	$(BIN)/python -m benchmarks.pipeline_memory $(if $(MESSAGES),--messages $(MESSAGES)) $(if $(JSON),--json $(JSON)) $(ARGS)

bench-streaming: build .venv/.all #: measure whether structured streaming keeps up, and its memory: RATE=200000 MINUTES=30
	$(BIN)/python -m benchmarks.streaming $(if $(RATE),--rate $(RATE)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(JSON),--json $(JSON)) $(ARGS)

debug: .venv/.base #: build with bounds and overflow checks, into build/debug
	@mkdir -p build/debug
	@tar --exclude=./build --exclude=./.venv --exclude=./.git --exclude=__pycache__ --exclude='*.so' -cf - . | tar -xf - -C build/debug
	@cd build/debug && ORDO_DEBUG=1 ORDO_ONLY=$(DEBUG_FOLDERS) ORDO_THREADS=$(JOBS) ../../$(BIN)/python -m tools.compile ../debug.log

test-debug: debug #: pass the tests of the native layers with the debug build
	@rm -f build/ubsan.*
	@cd build/debug && UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1:log_path=../ubsan ../../$(BIN)/python -m pytest -q \
		-n $(JOBS) --dist loadfile -m 'not root and not soak and not slow and not spark and not peers' \
		$(or $(ARGS),tests/runtime tests/transport tests/archive tests/consensus tests/service_api) \
		|| { cat ../ubsan.* 2>/dev/null; exit 1; }

test-wheel: .venv/.all #: build sdist and wheel as a release does, install the wheel outside the checkout, run the demo with it
	@ORDO_THREADS=$(JOBS) $(BIN)/python -m pytest -q -n0 -m 'wheel and not soak' --timeout=2700 tests/packaging $(ARGS)

test-releases: build #: upgrade a running cluster member by member from the last release, or PREVIOUS=revision
	@PREVIOUS=$(PREVIOUS) ORDO_THREADS=$(JOBS) $(BIN)/python -m pytest -q -n0 -m releases tests/releases $(ARGS)

test-stores: build .venv/.all #: export to S3 by Hadoop, read tables by Delta Lake; fetches about 1.1 GB the first time
	$(BIN)/python -m pytest -q -n0 -m stores tests/stores $(ARGS)

test-clients: build .venv/.all #: build the clients of examples/clients/ in Go, Java, TypeScript and Rust, and run them while a leader, a gateway and they themselves are killed; Kafka's tools, Connect, Spark's source and franz-go before ordo kafka
	$(BIN)/python -m pytest -q -n0 -m clients tests/gateway $(ARGS)

test-mutants: build .venv/.all #: plant mutants in the whole product, and say which tests find them, an hour or two: SAMPLE=300 SEED=1; ARGS="cluster transport" by the tests of these folders
	@$(BIN)/python -m tests.mutants --sample $(or $(SAMPLE),300) --seed $(or $(SEED),1) --jobs $(JOBS) $(ARGS)

test-aeron-suite: build #: run compiled tests of Aeron with its driver and with Ordo's: DIR=checkout CLASSPATH=jars CLASSES=pattern AERONMD=its C driver ARCHIVE=1 with Ordo's archive, DRIVER=aeron with that alone, JAVA_OPTIONS, JUNIT=jar, JSON=file; needs a JDK
	@$(BIN)/python -m tools.aeron_suite "$(or $(DIR),$(error say where the compiled tests are: make test-aeron-suite DIR=folder))" \
		--class-path "$(CLASSPATH)" --classes "$(CLASSES)" --java-options="$(JAVA_OPTIONS)" --junit "$(JUNIT)" \
		$(if $(AERONMD),--aeronmd "$(AERONMD)") $(if $(ARCHIVE),--archive) $(if $(filter aeron,$(DRIVER)),--keep-driver) $(if $(JSON),--json "$(JSON)")

test-docker: build .venv/.all #: build the image, run the Compose cluster; needs root, docker.io, docker-compose, debootstrap
	$(BIN)/python -m pytest -q -n0 -s -m docker tests/docker $(ARGS)

test-kubernetes: build .venv/.all #: run deploy/kubernetes on a Kubernetes of three nodes; needs what test-docker does, Go, containerd, runc, containernetworking-plugins
	$(BIN)/python -m pytest -q -n0 -s -m kubernetes tests/kubernetes $(ARGS)

release: .venv/.all #: make the files of a release in build/release: VERSION=0.3.0; DRY=1 tries it with one Python
	@$(BIN)/python -m tools.release --jobs $(JOBS) $(if $(DRY),--dry) $(or $(VERSION),$(error say which: make release VERSION=0.3.0))

clean: #: remove what was built, keep .venv
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find . -path ./.venv -prune -o \( -name '*.so' -o -name __pycache__ \) -print0 | xargs -0 rm -rf
