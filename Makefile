# The project's checks. `make test` runs all of them and is what CI runs;
# `make check` leaves out the lab of virtual machines, which takes root.
#
# Go 1.26 is needed, everything else is fetched by Go or installed by the
# targets themselves.

GO      ?= go
BIN     := bin

# The only C compiler that is needed is the race detector's.
export CGO_ENABLED = 0
# dist builds with it. With one set of flags the checks, the tests and the archives share what was compiled.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath)

.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

.PHONY: build
build: ## build the command to bin/softrdma
	$(GO) build -o $(BIN)/softrdma ./cmd/softrdma

PRELOAD   := preload/lib/linux
PRELOADED := $(PRELOAD)-amd64 $(PRELOAD)-arm64
ENGINES   := $(PRELOADED:%=%/engine.so)
# Go does not stop threads by SIGURG, which may be the program's.
ENGINE_LDFLAGS := -s -w -buildid= -X runtime.godebugDefault=asyncpreemptoff=1
# The libraries run with older C libraries than this machine's: see preload/glibc.h. Go does not look
# whether a header has changed, but whether flags have.
OLD_GLIBC := -include '$(CURDIR)/preload/glibc.h' -DGLIBC_H=$(firstword $(shell cksum < preload/glibc.h))
OLD_LIBS  := -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2
# The preloaded library finds what is not in libc.so.6 by itself (preload/src/libc.c), so that it is the only
# file that a program opens more.
$(PRELOAD)-%/preload.so: OLD_LIBS :=
.PHONY: preload $(PRELOADED) $(ENGINES)
preload: $(PRELOAD)-$(shell $(GO) env GOARCH) ## build the libraries of softrdma exec, which the next build embeds (C compiler)
$(PRELOADED): %: %/preload.so %/engine.so
$(PRELOADED:%=%/preload.so): $(wildcard preload/src/*) preload/glibc.h
	$${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror $(OLD_GLIBC) -fPIC -shared -fvisibility=hidden -Wl,--version-script=preload/src/preload.map -o $@ preload/src/*.c $(OLD_LIBS)
	$(GO) run ./preload/oldglibc -moved preload/glibc.h -needs libc.so.6 $@
$(ENGINES): $(PRELOAD)-%/engine.so: # Go knows what changed
	CC=$${CC:-gcc} CGO_CFLAGS="-g -O2 $(OLD_GLIBC)" CGO_LDFLAGS="$(OLD_LIBS)" CGO_ENABLED=1 GOOS=linux GOARCH=$* \
		$(GO) build -tags netgo,osusergo -buildmode=c-shared -trimpath -buildvcs=false -ldflags "$(ENGINE_LDFLAGS)" -o $@ ./preload/engine
	$(GO) run ./preload/oldglibc -moved preload/glibc.h,preload/engine/threads.c $@
	@rm -f $(@:.so=.h)
	@sha256sum < $@ | cut -d ' ' -f 1 > $(@:.so=.sum)

.PHONY: test
test: check interop ## every check there is

.PHONY: check
check: format vet lint race unit examples packages cross ## every check but the lab

.PHONY: format
format: ## all files are as gofmt writes them
	@files=$$(gofmt -l .); \
	if [ -n "$$files" ]; then echo "not formatted, run gofmt -w:" $$files; exit 1; fi

# lint makes the same checks for this system, and vet those that lint does not reach.
.PHONY: vet
vet: ## go vet for macOS and Windows, and tidy modules
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) vet ./...
	$(GO) vet -tags man ./cmd/softrdma
	cd packaging && $(GO) vet ./... && $(GO) mod verify && $(GO) mod tidy -diff
	cd packaging/kubernetes && $(GO) vet . && $(GO) mod tidy -diff
	cd bench && $(GO) vet ./... && GOOS=darwin $(GO) vet ./... && GOOS=windows $(GO) vet ./... && $(GO) mod tidy -diff
	cd ucx && GOOS=darwin $(GO) vet . && GOOS=windows $(GO) vet . && $(GO) mod tidy -diff
	cd tools && $(GO) mod verify
	$(GO) mod verify
	$(GO) mod tidy -diff

# The linter is a tool of a module of its own, so that its dependencies are not
# this module's.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(BIN)/golangci-lint ## golangci-lint
	$(BIN)/golangci-lint run ./...
	$(BIN)/golangci-lint run --build-tags interop ./interop/... ./internal/uverbs ./cmd/softrdma/...
	$(BIN)/golangci-lint run --build-tags kubernetes ./cmd/softrdma/...
	cd bench && ../$(BIN)/golangci-lint run --build-tags interop ./...
	cd ucx && ../$(BIN)/golangci-lint run ./...

# The unit tests compare with these programs of others, and skip what a missing one judges.
.PHONY: oracles
oracles:
	@packaging/need.sh tshark tshark || [ $$? = 1 ]
	@packaging/need.sh opensm opensm || [ $$? = 1 ]
	@packaging/need.sh ibsim ibsim-utils || [ $$? = 1 ]
	@packaging/need.sh ibnetdiscover infiniband-diags || [ $$? = 1 ]
	@packaging/need.sh mpiexec.hydra mpich || [ $$? = 1 ]
	@packaging/need.sh mpirun.openmpi openmpi-bin || [ $$? = 1 ]
	@packaging/need.sh srun "slurmctld slurmd slurm-client" || [ $$? = 1 ]
	@packaging/need.sh sshd openssh-server || [ $$? = 1 ]
	@packaging/need.sh ip iproute2 || [ $$? = 1 ]
	@packaging/need.sh promtool prometheus || [ $$? = 1 ]
	@packaging/need.sh prometheus-node-exporter prometheus-node-exporter || [ $$? = 1 ]
	@packaging/need.sh tmux tmux || [ $$? = 1 ]
	@packaging/need.sh chromium chromium || [ $$? = 1 ]

# vet and lint check what go test would vet again.
GO_TEST := $(GO) test -vet=off

# Machines and their simulations run on their caller's goroutine, where the race detector finds nothing and takes ten times as
# long. A test of docs holds that they start no other.
MACHINES := internal/(cm|congestion|iwarp|message|psn|qp|rc/(reorder|responder|scoreboard)|session|simnet|simnet/comparison|tagmatch|topology|uc|ud|fabric/(node|port|subnet|trunk)|management/(partitions|rmpp|sm)|wire/(ethernet|ib|ib/own|iwarp|mad|mad/[a-z]+|psp))

# The race detector needs a C compiler on most systems. Without one this fails
# in CI and is left out elsewhere. The tests of docs read files and run other
# programs, in which the detector would see nothing. Tests that run the command skip
# for the same reason.
.PHONY: race
race: oracles ## unit tests with the race detector, few seeds
	@if command -v $${CC:-gcc} >/dev/null; then set -x; CGO_ENABLED=1 $(GO_TEST) -race -short -timeout 15m $$($(GO) list ./... | grep -vE '/(docs|$(MACHINES))$$') && (cd bench && CGO_ENABLED=1 $(GO_TEST) -race -short -timeout 5m ./...) && (cd ucx && CGO_ENABLED=1 $(GO_TEST) -race -short -timeout 5m .); \
	elif [ -n "$$CI" ]; then echo "race: no C compiler (gcc)"; exit 1; \
	else echo "SKIPPED race: no C compiler (gcc)"; fi

# What the tests of the command run, linked once and not in each package.
COMMAND = $(BIN)/test/softrdma$(shell $(GO) env GOEXE)
.PHONY: unit
unit: oracles ## unit tests, all seeds
	$(GO) build -o $(COMMAND) ./cmd/softrdma
	SOFTRDMA_TEST_COMMAND=$(CURDIR)/$(COMMAND) $(GO_TEST) -timeout 15m ./...
	$(GO_TEST) -tags man -run Manual ./cmd/softrdma
	cd bench && $(GO_TEST) -timeout 5m ./...
	cd ucx && $(GO_TEST) -timeout 5m .
	$(GO_TEST) -short ./verbs -args -inmemory
	@if [ "$$($(GO) env GOOS)" = linux ]; then set -x; $(GO_TEST) -short ./verbs -args -samehost; fi
	@if [ "$$($(GO) env GOOS)" = linux ]; then set -x; $(GO_TEST) -short ./verbs -args -infiniband; fi
	@if [ "$$($(GO) env GOOS)" != linux ]; then :; \
	elif [ "$$(id -u)" = 0 ]; then set -x; $(GO_TEST) -short ./verbs -args -roce1; \
	else echo "SKIPPED the verbs over RoCE v1: not root (CAP_NET_RAW)"; fi

# The unit tests play 1000 seeds of each test, or fewer.
SEEDS ?= 10000
# Frames through Ethernet switches with PFC, of which none may be lost.
FRAMES ?= 1000000000
.PHONY: soak
soak: ## SEEDS (10000) seeds of each simulated test, through the network and through memory
	$(GO) test -count=1 -timeout 4h -run 'Seeds|TestMemoryChangesNoStatusAndNoByte' ./internal/simnet ./internal/cm -args -seeds $(SEEDS)
	$(GO) test -count=1 -timeout 4h ./internal/tagmatch -args -seeds $$((1000 * $(SEEDS)))
	$(GO) test -count=1 -timeout 4h ./internal/message -args -seeds $$((10 * $(SEEDS)))
	$(GO) test -count=1 -timeout 4h -run 'TestRandomNetworks|TestPFCLosesNothingAtAnyLoad|TestDeadlocksAre' ./internal/fabric/lan -args -seeds $(SEEDS) -deadlock-seeds $(SEEDS) -frames $(FRAMES)
	$(GO) test -count=1 -timeout 4h -run AtAnyPointSeeds ./msg ./coll ./rpc -args -seeds $(SEEDS)
	SOFTRDMA_LONG_PATHS=1 $(GO) test -count=1 -timeout 1h -run 'TestLongPathsAreFilled|TestStreamFillsFastLongPath|TestPathSharesWithOthers' -v ./internal/simnet/... ./internal/congestion

LIMIT := $(if $(shell command -v timeout),timeout 120)
.PHONY: examples
examples: ## the examples do what they say
	@set -e; for d in examples/*/; do echo "go run $$d"; (cd $$d && $(LIMIT) $(GO) run .); done
	cd examples/grpc && $(GO) vet ./... && $(GO) test ./... && $(GO) mod tidy -diff
	cd rpc/protobuf && $(GO) vet ./... && $(GO) test ./... && $(GO) mod tidy -diff

# Archives for all supported systems; see packaging/README.md.
# softrdma exec needs a library in C. Without a C compiler for a system, the archive
# of that system lacks it. In CI a missing compiler for CI's own system is an error.
.PHONY: dist
dist: ## archives for six systems, deb and rpm, with checksums and SBOM, in bin/dist
	@if [ "$$($(GO) env GOOS)" != linux ]; then echo "dist: no library of softrdma exec, which Linux's compiler builds"; \
	elif command -v $${CC:-gcc} >/dev/null; then $(MAKE) preload; \
	elif [ -n "$$CI" ]; then echo "dist: no C compiler (gcc)"; exit 1; \
	else echo "SKIPPED library of softrdma exec: no C compiler (gcc)"; fi
	@if command -v aarch64-linux-gnu-gcc >/dev/null; then CC=aarch64-linux-gnu-gcc $(MAKE) $(PRELOAD)-arm64; \
	elif [ "$$($(GO) env GOHOSTARCH)" != arm64 ]; then echo "dist: linux-arm64 without the library of softrdma exec: no aarch64-linux-gnu-gcc"; fi
	cd packaging && $(GO) run ./dist $(if $(MAINTAINER),-maintainer '$(MAINTAINER)')

.PHONY: image
image: dist ## a static container image, in bin/softrdma-image.tar (buildah, no registry)
	@rm -f $(BIN)/softrdma-image.tar
	@packaging/need.sh buildah buildah || { [ $$? = 1 ] || exit 1; echo "SKIPPED image: none was built without buildah" >&2; exit 0; }; \
	set -x; packaging/image.sh $(BIN)/softrdma-image.tar

.PHONY: packages
packages: image ## dist and image, and tests of their contents, and of the scripts of CI (docs/ci.md)
	@packaging/need.sh systemd-analyze systemd || [ $$? = 1 ]
	@packaging/need.sh rpm rpm || [ $$? = 1 ]
	@packaging/need.sh lintian lintian || [ $$? = 1 ]
	@packaging/need.sh rpmlint rpmlint || [ $$? = 1 ]
	@packaging/need.sh ip iproute2 || [ $$? = 1 ]
	@packaging/need.sh ibv_rc_pingpong ibverbs-utils || [ $$? = 1 ]
	@packaging/need.sh ib_write_bw perftest || [ $$? = 1 ]
	@packaging/need.sh ucx_perftest ucx-utils || [ $$? = 1 ]
	@packaging/need.sh mpirun.openmpi openmpi-bin || [ $$? = 1 ]
	@packaging/need.sh '/usr/lib/*/openmpi/include/mpi.h' libopenmpi-dev || [ $$? = 1 ]
	@packaging/need.sh /usr/include/gloo/transport/ibverbs/device.h libgloo-dev || [ $$? = 1 ]
	@packaging/need.sh /usr/include/infiniband/verbs.h libibverbs-dev || [ $$? = 1 ]
	@packaging/need.sh g++ g++ || [ $$? = 1 ]
	cd packaging && $(GO) test -count=1 -timeout 15m ./...
	cd packaging/kubernetes && $(GO) test -count=1 -timeout 15m .
	$(GO) test -tags kubernetes -count=1 ./cmd/softrdma/internal/kubernetes

# Beside those of dist.
.PHONY: cross
cross: ## the command builds for FreeBSD, and the libraries of softrdma exec for arm64
	GOOS=freebsd GOARCH=amd64 $(GO) build -o /dev/null ./cmd/softrdma
	@packaging/need.sh aarch64-linux-gnu-gcc "gcc-aarch64-linux-gnu libc6-dev-arm64-cross" || { [ $$? = 1 ] && exit 0 || exit 1; }; \
	set -x; CC=aarch64-linux-gnu-gcc $(MAKE) $(PRELOAD)-arm64

.PHONY: interop
interop: ## against Linux's Soft RoCE, in virtual machines (root, installs Debian packages)
	@mkdir -p $(BIN); rm -f $(BIN)/interop-notes; set -x; \
	SOFTRDMA_LAB_NOTES=$(CURDIR)/$(BIN)/interop-notes $(GO) test -tags interop -count=1 -p 1 -timeout 45m -skip '$(STORAGE)|$(LINUX)' ./interop/... || status=$$?; \
	set +x; [ ! -e $(BIN)/interop-notes ] || { echo "interop: tests passed at another attempt only:"; cat $(BIN)/interop-notes; }; \
	exit $${status:-0}

# These have Linux at both ends, and show that the records and the programs of the tests above are right. Only Debian's packages and
# new scenarios change that, and they take a quarter of the time.
LINUX := Against(Itself|Rxe|Siw)$$|^TestSuiteOnLinux
.PHONY: linux
linux: ## Linux's Soft RoCE and soft iWARP against themselves, in virtual machines (root, installs Debian packages)
	$(GO) test -tags interop -count=1 -v -timeout 30m -run '$(LINUX)' ./interop/suites

# They write and compare files, or load fabrics, for minutes in emulated guests, so that they are not among those of interop.
STORAGE := ^Test(NVMe|Files|ISER|Switch|Fabric)
# BLKTESTS=DIR, a checkout of github.com/linux-blktests/blktests, adds its nvme group; NVME_FIGURES=ROUNDS measures, too;
# FSX=PROGRAM adds the file system exerciser, and FILES_LARGE=1 files of 4 GiB. On a busy machine all takes more than an hour, so each
# of three parts has guests of its own and an hour. STORAGE=PATTERN runs what it matches at once.
STORAGE_PARTS := '^TestNVMe' '^TestFiles' '^Test(ISER|Switch|Fabric)'
.PHONY: storage
storage: ## disks and directories over RDMA against Linux's, in virtual machines (root, installs Debian packages)
	@for part in $(if $(findstring command,$(origin STORAGE)),'$(STORAGE)',$(STORAGE_PARTS)); do \
		echo "storage: $$part"; $(GO) test -tags interop -count=1 -v -timeout 60m -run "$$part" ./interop/suites || status=$$?; \
	done; exit $${status:-0}

# What the tests of the engine load beside it, or run in one process with it.
.PHONY: hosts
hosts:
	@packaging/need.sh '/usr/lib/*/libjemalloc.so.2' libjemalloc2 || [ $$? = 1 ]
	@packaging/need.sh '/usr/lib/*/libtcmalloc_minimal.so.4' libtcmalloc-minimal4 || [ $$? = 1 ]
	@packaging/need.sh javac default-jdk-headless || [ $$? = 1 ]
	@packaging/need.sh /usr/share/java/jna.jar libjna-java || [ $$? = 1 ]
	@packaging/need.sh valgrind valgrind || [ $$? = 1 ]
	@packaging/need.sh musl-gcc musl-tools || [ $$? = 1 ]
	@packaging/need.sh /usr/include/rdma/rdma_cma.h librdmacm-dev || [ $$? = 1 ]

# It downloads 300 MB for each release, which the user's cache keeps. With RXE=1 it runs each program also on
# Linux's Soft RoCE, in a guest with the same user land.
.PHONY: userlands
userlands: preload build dist ## programs of four releases of Debian under softrdma exec, and the packages there (root, debootstrap)
	@packaging/need.sh debootstrap debootstrap || [ $$? = 1 ]
	@packaging/need.sh rpm rpm || [ $$? = 1 ]
	$(GO) test -tags interop -count=1 -v -timeout $(if $(RXE),150m,40m) ./interop/userlands -args -userlands $(if $(RXE),-rxe)

# It downloads 250 MB for each release, which the user's cache keeps.
.PHONY: containers
containers: preload build ## CDI devices in containers of Debian 12 and 13, by podman, buildah and Docker (root, debootstrap)
	$(GO) test -tags interop -count=1 -v -timeout 40m ./interop/containers -args -containers -command bin/softrdma

.PHONY: programs
programs: hosts oracles faultprograms nbdprograms preload build ## Debian's programs under softrdma exec, and the table of docs/tested-against.md (wants them and a C compiler)
	@packaging/need.sh tgtd tgt || [ $$? = 1 ]
	@packaging/need.sh iscsi-test-cu libiscsi-bin || [ $$? = 1 ]
	@packaging/need.sh qemu-system-x86_64 qemu-system-x86 || [ $$? = 1 ]
	@packaging/need.sh lldpcli lldpd || [ $$? = 1 ]
	$(GO) test -tags interop -count=1 -run 'Program|Exec|OpenSM' ./internal/uverbs ./cmd/softrdma/...
	$(GO) run -tags interop ./interop/suites/programs -engine daemon
	$(GO) run -tags interop ./interop/suites/programs -engine program -write docs/tested-against.md

# Clients of softrdma nvme serve-nbd.
.PHONY: nbdprograms
nbdprograms:
	@packaging/need.sh nbdcopy libnbd-bin || [ $$? = 1 ]
	@packaging/need.sh qemu-img qemu-utils || [ $$? = 1 ]

# What runs under each kind of fault and under scenarios.
.PHONY: faultprograms
faultprograms:
	@packaging/need.sh ib_write_bw perftest || [ $$? = 1 ]
	@packaging/need.sh rping rdmacm-utils || [ $$? = 1 ]
	@packaging/need.sh ucx_perftest ucx-utils || [ $$? = 1 ]
	@packaging/need.sh mpirun.openmpi openmpi-bin || [ $$? = 1 ]
	@packaging/need.sh '/usr/lib/*/openmpi/include/mpi.h' libopenmpi-dev || [ $$? = 1 ]
	@packaging/need.sh fio fio || [ $$? = 1 ]
	@packaging/need.sh tshark tshark || [ $$? = 1 ]
	@packaging/need.sh /usr/share/doc/rdma-core/tests/run_tests.py "rdma-core python3-pyverbs" || [ $$? = 1 ]

# PROGRAM is one of faults/scenarios/programs/run.sh. The namespace keeps other traffic of the loopback out.
PROGRAM ?= rping
FAULTS_TIMEOUT ?= 60s
.PHONY: faulttable
faulttable: faultprograms preload build ## PROGRAM (rping) under each scenario of faults, as in docs/faults.md (root, Debian's programs)
	@! command -v mpicc.openmpi >/dev/null || mpicc.openmpi -O2 -o $(BIN)/exchange interop/suites/programs/testdata/exchange.c
	EXCHANGE=$(CURDIR)/$(BIN)/exchange unshare -n sh -c 'ip link set lo up && exec "$$@"' sh \
		$(BIN)/softrdma fault run -d 127.0.0.1 --all --timeout $(FAULTS_TIMEOUT) -- faults/scenarios/programs/run.sh $(PROGRAM) 127.0.0.1

# Each fuzz target for FUZZTIME. Without the limit, most of that time goes into inputs that are made shorter.
FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (20s)
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for f in $$(grep -rh '^func Fuzz' $$dir/*_test.go | sed 's/func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			echo "$$dir $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$dir; \
		done; \
	done

# The attacks run with few packets among the unit tests.
ATTACK_FACTOR ?= 20
.PHONY: attack
attack: ## the attacks of docs/security.md, ATTACK_FACTOR (20) times as many packets as the unit tests send
	ATTACK_FACTOR=$(ATTACK_FACTOR) $(GO) test -count=1 -timeout 30m -run '^TestAttack' ./...

.PHONY: bench
bench: ## benchmarks with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./...

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
