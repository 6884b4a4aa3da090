# repro: build, tests, installation. `make help` lists what there is.
#
# Variables (on the command line or in the environment):
#   V=1            print commands
#   JOBS=N         parallel jobs, default: all processors (a -jN of make itself wins)
#   BUILD=DIR      where everything built goes, default build
#   DEPS_DIR=DIR   where the dependencies are built once, default $(BUILD)/deps; several checkouts may share one
#   DEPS_MIRROR=D  a directory with the sources of env/deps.lock, tried before the network; OFFLINE=1: no network
#   DEPS_LOCK=FILE another lock file than env/deps.lock
#   ARCH=aarch64   only on the command line: the program for 64-bit Arm, cross-compiled to BUILD/aarch64; of the goals
#                  all, check, deps, setup, install, dist, clean and distclean
#   STRICT=1       refuse a dependency whose pinned version has left the archive
#   CUDA=1         with the GPU worker, from the wheels of env/cuda.lock; no CUDA installation needed. Without it the
#                  program cannot use GPUs and reports that. `make test` and `make check` build it where the wheels can
#                  be had; CUDA=0: never
#   CUDA_HOME=DIR  with CUDA=1, only on the command line: headers and libcudart_static.a of this installed toolkit
#                  instead
#   NVCC=PATH      with CUDA=1, only on the command line: device code by this compiler of CUDA 12 or 13 (which knows no
#                  sm_70), not by the pinned NVRTC
#   PTX=LIST       with tests-built: architectures for which tests/ptx gets PTX, default compute_70 compute_90
#   SASS=LIST      with tests-built: architectures whose machine code tests/sass executes, default sm_90
#   ARCHS=LIST     with CUDA=1: device code for these only, to try something: sm_90 compute_100
#   COMMIT=HEX     the commit, where there is no git (tarballs of `git archive` know theirs)
#   CC=gcc         Debian's gcc, wrapped by env/repro-cc
#   SAN=asan|tsan  with the target `all`: that native build, BUILD/SAN/repro, instead of the static program
#   T=PATTERN      with `test` or `check`: only tests whose name contains it; LONG=1: everything that takes minutes
#   PREFIX, DESTDIR  with `install`, default /usr/local and nothing
#   REPRO_KEY=FILE with `dist`: the private key that signs the release
#   BASE=IMAGE     with `image`: the base of the image for GPU users; PLATFORMS=linux/amd64,linux/arm64: manifest lists
#                  of both
VERSION := 0.1.0

BUILD ?= build
# One spelling: it stands in command lines, and these are compared.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))
DEPS_DIR ?= $(BUILD)/deps
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
machine := $(shell uname -m)
ifneq ($(origin ARCH),command line) # kernel developers have it in their environment, with other names
ARCH := $(machine)
endif
ifeq ($(filter x86_64 aarch64,$(ARCH)),)
$(error ARCH: '$(ARCH)'; the program is built for x86_64 and aarch64)
endif
top := $(BUILD)
ifneq ($(ARCH),$(machine))
ifneq ($(ARCH),aarch64)
$(error ARCH=$(ARCH): this machine is $(machine), and only aarch64 is cross-compiled for)
endif
cross := aarch64-linux-gnu-
# Both live side by side. A make below another one has BUILD from its environment as it is here.
override top := $(BUILD:%/aarch64=%)
override DEPS_DIR := $(or $(filter-out $(BUILD)/deps,$(DEPS_DIR)),$(top)/deps)
override BUILD := $(top)/aarch64
cross_refused := $(filter-out all check deps setup install dist clean distclean help $(BUILD)/%,$(MAKECMDGOALS))
ifneq ($(cross_refused)$(SAN),)
$(error ARCH=aarch64: not for $(or $(firstword $(cross_refused)),SAN=$(SAN)), which needs libraries or a processor of aarch64; it builds and \
	checks the static program: make ARCH=aarch64 [check])
endif
endif
ifneq ($(filter-out 0,$(CUDA)),)
ifeq ($(machine),aarch64)
$(error CUDA=1: the GPU worker is built on x86-64, for aarch64 too: make ARCH=aarch64 CUDA=1 there)
endif
ifneq ($(and $(cross),$(filter command line,$(origin CUDA_HOME) $(origin NVCC))),)
$(error ARCH=aarch64: not with CUDA_HOME or NVCC; the GPU worker is built from the wheels of env/cuda.lock)
endif
endif
# What runs while it is built.
host_cc := $(if $(cross),gcc,$(CC))
ifeq ($(origin CC),default)
CC := $(cross)gcc
endif
setup := $(if $(cross),aarch64,build)
# A make below another one shares its jobs.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(JOBS)
endif
MAKEFLAGS += --no-builtin-rules
Q := $(if $(V),,@)
silent := $(findstring s,$(firstword -$(filter-out --%,$(MAKEFLAGS))))
say = $(if $(V)$(silent),,@printf '  %-7s %s\n' $1 $2)
export RP_GCC := $(CC)
override DEPS_LOCK := $(abspath $(or $(DEPS_LOCK),env/deps.lock))
export DEPS_LOCK
export LC_ALL := C
unexport CPATH C_INCLUDE_PATH LIBRARY_PATH # of this machine's user: the compiler would look there

all: $(if $(SAN),$(BUILD)/$(SAN)/repro,$(BUILD)/repro)
.PHONY: all run check test ptx-check sass-check bench oracle gpu-check gpu-pack lint format fuzz fuzz-all image \
	install dist clean distclean help deps setup \
	check-built coverage-built tests-built coverage FORCE
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# Goals that set the machine up or only remove things start a make of their own for what they build, so that they work
# where there is no compiler yet.
NO_BUILD := run check test coverage ptx-check sass-check bench oracle gpu-check gpu-pack lint format image clean \
	distclean help setup fuzz fuzz-all
ifneq ($(filter-out $(NO_BUILD),$(or $(MAKECMDGOALS),all)),)

# --- what goes in ---------------------------------------------------------------------------------------------------
other_machines := $(if $(filter x86_64,$(ARCH)),%_neon.c,%_avx2.c %_avx512.c %/ops_scalar_fma.c)
sources := $(filter-out src/gpu/% src/backend/cuda/% \
	$(other_machines),$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))) src/backend/cuda/needs.c
embedded := LICENSE $(sort $(filter-out %.md %/,$(wildcard recipes/*.yaml recipes/*.json recipes/*.tar.* recipes/*.zip \
	src/*/*.sh src/*/*.css src/*/*/*.json src/*/*/*.in results/published/*.csv results/published/*.json \
	results/published/tensor_core/*)))
# The cases of the GPT report of 2021: a recipe of fp32 and one of fp16 for each name of its table, embedded as
# recipes/gpt/NAME.yaml.
gpt_table := results/published/gpt_v100.csv
gpt_cases := $(addprefix $(BUILD)/recipes/gpt/,$(addsuffix .yaml,\
	$(shell sed '1d;s/,.*//' $(gpt_table) | uniq | sed 'p;s/$$/_fp16/')))
tests := $(sort $(wildcard tests/unit/test_*.c tests/ops/test_*.c))
fuzzers := $(sort $(wildcard tests/fuzz/fuzz_*.c))

git := git -c safe.directory='*' -C .
at := $(shell $(git) log -1 --format='%H %ct' 2>/dev/null || sed -n '/^[0-9a-f]\{40\} /p' env/commit)
ifndef COMMIT
COMMIT := $(or $(word 1,$(at)),unknown)
DIRTY := $(shell if [ -e .git ]; then [ -z "`$(git) status --porcelain -- src env recipes results/published Makefile 2>&1`" ] && echo clean || echo dirty; \
	elif [ $(COMMIT) = unknown ]; then echo unknown; else echo clean; fi)
endif
DIRTY ?= unknown
export SOURCE_DATE_EPOCH := $(or $(word 2,$(at)),1700000000)

# Write stdin to $1 only if it differs: whatever depends on the file is rebuilt when its content changes, not its date.
if_changed = cat >$1.new && if cmp -s $1.new $1; then rm $1.new; else mv $1.new $1; fi

# --- flags ----------------------------------------------------------------------------------------------------------
warnings := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wformat=2 -Wundef \
	-Werror=implicit-function-declaration
# GCC on x86 contracts a * b + c at -O2 where FMA is allowed; tests/ops/test_contract.c checks that it would be noticed.
common := -std=gnu11 -ffp-contract=off$(if $(filter aarch64,$(ARCH)), -fsigned-char) -D_GNU_SOURCE -Isrc -I. \
	$(warnings) -ffile-prefix-map=$(CURDIR)=. -fno-record-gcc-switches
# musl has no checked string functions and Debian 12 no fortify-headers, so _FORTIFY_SOURCE would be a flag without
# effect here.
harden := -fPIE -fstack-protector-strong
ifeq ($(ARCH),x86_64) # aarch64 always has its vectors, and one instruction for fmaf()
fma := -mfma
f16c := -mf16c
avx2 := -mavx2 $(fma) $(f16c)
avx512 := -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512
endif
# What a file needs besides the flags of its variant. gemm_avx512.c has offsets that only become constants from -O2 on.
# reference.c, the definition that tests compare with, is several times faster with an instruction for fmaf(), and
# without sanitizers.
own_flags = $(strip $(if $(filter %_avx2.c,$1),$(avx2)) \
	$(if $(filter %_avx512.c,$1),$(avx512)) $(if $(filter %/gemm_avx512.c,$1),-O2) $(if $(filter %_popcount_avx512.c,$1),-mavx512vpopcntdq) \
	$(if $(findstring /tc_tile_,$1),$(f16c)) \
	$(if $(filter native/src/ops/reference.c,$2/$1),$(fma)) $(if $(filter asan/src/ops/reference.c,$2/$1),$(asan_reference)) \
	$(if $(filter $(no_arithmetic:%=native/src/%/%),$2/$1),$(native_no_arithmetic)) \
	$(if $(filter asan/src/backend/cpu/%,$2/$1),$(asan_kernels)) $(if $(filter asan/tests/%,$2/$1),$(asan_tests_flags)) \
	$(if $(filter coverage/src/backend/cpu/% coverage/src/ops/%,$2/$1),$(coverage_kernels)))

static_libs := -ljpeg -lgit2 -lhttp_parser -lhwloc -larchive -lssl -lcrypto -ljansson -lyaml -llzma -lzstd -lbz2 -llz4 \
	-lz -lpthread -lm
native_libs := -ljpeg -lgit2 -lhwloc -larchive -lssl -lcrypto -ljansson -lyaml -lzstd -lz -lpthread -lm
native_packages := libgit2-dev libhwloc-dev libjpeg62-turbo-dev libarchive-dev libssl-dev libjansson-dev libyaml-dev \
	libzstd-dev zlib1g-dev

# --- dependencies of the static program -----------------------------------------------------------------------------
deps_key := $(shell RP_GCC='$(CC)' RP_SETUP=$(setup) DEPS_LOCK='$(DEPS_LOCK)' env/deps-key.sh)
ifeq ($(deps_key),)
$(error cannot tell the toolchain: run env/setup.sh $(setup))
endif
sysroot := $(abspath $(DEPS_DIR))/$(deps_key)/sysroot
$(sysroot)/sources.txt: export JOBS := $(JOBS)
$(sysroot)/sources.txt:
	$(Q)env/build-deps.sh $(DEPS_DIR)
deps: $(sysroot)/sources.txt
ifdef STRICT
$(if $(wildcard $(sysroot)/sources.txt),$(if $(shell grep fell-forward $(sysroot)/sources.txt),$(error STRICT is set, and \
	$(shell grep fell-forward $(sysroot)/sources.txt | head -1))))
endif

# --- generated recipes ----------------------------------------------------------------------------------------------
$(gpt_cases): $(BUILD)/recipes/gpt/%.yaml: recipes/gpt/case.in $(gpt_table) env/gen-gpt-case.sh
	$(Q)mkdir -p $(@D)
	$(Q)env/gen-gpt-case.sh $* >$@

# --- variants -------------------------------------------------------------------------------------------------------
# static    the product: musl, static PIE                            -> BUILD/repro (stripped)
# native    the same sources with this machine's libraries: valgrind, op tests
# asan tsan native with sanitizers
# coverage  native that counts how often a line is reached (make coverage)
# fuzz      clang's libFuzzer (make fuzz FUZZ=name)
# Everything of a variant lies in BUILD/VARIANT: objects by source path, gen/, librepro.a (all but main.c), repro,
# tests.
variants := static native asan tsan coverage fuzz
static_cc := RP_SYSROOT=$(sysroot) env/repro-cc
static_flags := -O2 $(harden) -ffunction-sections -fdata-sections
static_ldflags := -static-pie -Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack,--build-id=none
# Cross-compiled it is what `make test` runs in an emulator, with Debian's libraries: env/fetch-arm64.sh takes seconds
# where the dependencies of the static program take minutes.
arm64 := $(if $(cross),$(shell env/fetch-arm64.sh --dir $(DEPS_DIR)))
native_cc := $(CC)$(if $(cross), --sysroot=$(arm64))
native_flags := -O2 $(if $(cross),-g0,-g1)
# Folders that compute nothing: a third of the time to compile.
native_no_arithmetic := -O0 -Wno-format-truncation
no_arithmetic := bundle capture cli compare estimate export import launch ledger page recipe report run sign supervise \
	verify
ifdef cross
$(arm64):
	$(Q)env/fetch-arm64.sh $(DEPS_DIR)
$(BUILD)/native/flags: | $(arm64)
endif
# Two hundred test programs are linked: gold, of binutils too, takes a quarter of the time.
gold := $(if $(shell command -v $(cross)ld.gold),-fuse-ld=gold)
native_ldflags := $(gold)
# False positives of gcc in the code that the sanitizers add.
quiet := -Wno-format-truncation -Wno-maybe-uninitialized -Wno-stringop-truncation
# -O1 and -g1 halve the compile time. For the kernels two checks are left out, since the address sanitizer finds what
# they would find, and accesses are checked by calls; lanes.h asks for no more than -O1 there: 7 s instead of 39 s for
# ops_avx2.c.
asan_cc := $(CC)
asan_flags := -O1 -g1 $(quiet) -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
asan_kernels := -fno-sanitize=null,pointer-overflow --param asan-instrumentation-with-call-threshold=0
asan_reference := $(if $(filter-out 0,$(LONG)),,-O2 $(fma) -fno-sanitize=all)
# Tests themselves: a third of the time to compile; what they do to memory is still watched. They run in the order that
# they have with -O1.
asan_tests_flags := -O0 -ftoplevel-reorder -fno-sanitize=undefined
asan_ldflags := -fsanitize=address,undefined $(gold)
tsan_cc := $(CC)
tsan_flags := -O1 -g1 $(quiet) -fsanitize=thread
tsan_ldflags := -fsanitize=thread $(gold)
# What the tests of threads link, and no more.
tsan_sources := $(if $(filter tsan,$(SAN)),$(sources),$(filter \
	$(addprefix src/,$(addsuffix /%,base ops sign backend comm data)) src/train/prefetch.c,$(sources)))
# Kernels are not counted: tests/ops, which compares them, is not among the tests that make coverage runs.
coverage_cc := $(CC)
coverage_flags := -O1 -g1 $(quiet) -fprofile-arcs -ftest-coverage -fprofile-update=atomic
coverage_kernels := -O2 -fno-profile-arcs -fno-test-coverage
coverage_ldflags := --coverage -Wl,--wrap=_exit,--wrap=_Exit
coverage_sources := $(sources) tests/coverage/exit.c
fuzz_cc := clang
fuzz_flags := -O2 -g -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all \
	-DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
fuzz_ldflags := -fsanitize=address,undefined,fuzzer
$(foreach v,$(variants),$(eval $v_libs ?= $(native_libs)))
# The kernels of the product itself: tests/ops compares the code that ships, and tests with sanitizers are about what is
# around it. With LONG=1 the address sanitizer watches kernels too; without, tests/valgrind does.
shipped := $(filter-out $(other_machines),$(wildcard $(addprefix src/backend/cpu/,ops_*.c gemm_*.c tc_tile_*.c)))
native_shipped := $(if $(cross),,$(shipped))
tsan_shipped := $(shipped)
asan_shipped := $(if $(filter-out 0,$(LONG)),,$(shipped))
static_libs_dir := $(sysroot)/lib

# --- repro-gpu ------------------------------------------------------------------------------------------------------
ifneq ($(filter install dist,$(MAKECMDGOALS)),)
CUDA ?= $(shell grep -qs repro-gpu $(BUILD)/static/gen/files && echo 1) # what was built is installed or released
endif
ifneq ($(filter-out 0,$(CUDA)),)
include env/gpu.mk
include env/gpu-tests.mk
endif

define variant
$1_objects := $(patsubst %.c,$(BUILD)/$1/%.o,$(filter-out $($1_shipped),$(or $($1_sources),$(sources)))) \
	$(patsubst %.c,$(BUILD)/static/%.o,$(filter $($1_shipped),$(or $($1_sources),$(sources))))
$1_line := $$($1_cc) $(common) $$($1_flags)

# The line of the compiler, its version, and the file lists: a change of any rebuilds what depends on it.
$(BUILD)/$1/flags: FORCE
	$$(Q)mkdir -p $$(@D)/gen
	$$(Q)printf '%s\n' '$$($1_line) $$($1_ldflags) $(avx2) $(avx512) $($1_kernels) $($1_tests_flags)$(if $($1_no_arithmetic), $($1_no_arithmetic) of some)$(if $($1_shipped), kernels that ship)' "`$$(or $$(filter clang,$$($1_cc)),$(CC)) --version | sed 1q`" | $$(call if_changed,$$@)
$(BUILD)/$1/gen/files: FORCE | $(BUILD)/$1/flags
	$$(Q)printf '%s\n' $(sources) $(embedded) $(gpt_cases) $($1_gpu) | $$(call if_changed,$$@)

$(BUILD)/$1/%.o: %.c $(BUILD)/$1/flags $(if $(filter static,$1),$(sysroot)/sources.txt)
	$$(Q)mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$($1_line) $$(call own_flags,$$<,$1) -MMD -MP -c $$< -o $$@

$(BUILD)/$1/gen/deps.txt: $(BUILD)/$1/flags $(BUILD)/$1/gen/files $(if $(filter static,$1),$(sysroot)/sources.txt) \
	$(if $($1_gpu),$(cuda_ready))
	$$(Q)$(if $(filter static,$1),{ $(if $($1_gpu),$$(cuda_sources); )cat $(sysroot)/sources.txt; },dpkg-query -W -f '$$$${Package} $$$${Version} - system\n' \
		$(native_packages) 2>/dev/null) | $$(call if_changed,$$@)
	$$(Q)touch $$@
$(BUILD)/$1/gen/LICENSES.txt: $(BUILD)/$1/gen/deps.txt
	$$(Q)$(if $(filter static,$1),{ cat $(sysroot)/LICENSES.txt$(if $($1_gpu),; $$(cuda_licenses)); },echo This build uses libraries of the system it was built on.) >$$@
$(BUILD)/$1/gen/build.c: FORCE env/gen-build.sh $(BUILD)/$1/gen/deps.txt \
	$(if $($1_gpu),$(gpu)/about.txt $(gpu)/images.txt)
	$$(Q)env/gen-build.sh '$(VERSION)' '$(COMMIT)' '$(DIRTY)' "`sed -n '$$$$p' $(BUILD)/$1/flags`" \
		'$$(subst $(CURDIR),.,$$(subst $(sysroot),SYSROOT,$$($1_line) $$($1_ldflags)))' $(BUILD)/$1/gen/deps.txt "$(if $($1_gpu),`cat $(gpu)/about.txt`)" \
		$(if $($1_gpu),$(gpu)/images.txt,/dev/null) | $$(call if_changed,$$@)
$(BUILD)/$1/gen/embed.c: $(BUILD)/$1/gen/files $(BUILD)/$1/gen/LICENSES.txt $(embedded) $(gpt_cases) $($1_gpu) \
	env/gen-embed.sh
	$$(call say,EMBED,$$@)
	$$(Q)env/gen-embed.sh $(BUILD)/$1/gen/embed $(embedded) $(foreach f,$(gpt_cases),recipes/gpt/$(notdir $f)=$f) LICENSES.txt=$(BUILD)/$1/gen/LICENSES.txt \
		$(if $($1_gpu),repro-gpu.zst=$($1_gpu))
$(BUILD)/$1/gen/%.o: $(BUILD)/$1/gen/%.c $(BUILD)/$1/flags
	$$(Q)$$($1_line) -MMD -MP -c $$< -o $$@
$(BUILD)/$1/gen/bytes.o: $(BUILD)/$1/gen/embed.c
	$$(Q)$$($1_cc) -c $(BUILD)/$1/gen/embed.S -o $$@

$1_gen := $(BUILD)/$1/gen/build.o $(BUILD)/$1/gen/embed.o $(BUILD)/$1/gen/bytes.o
$(BUILD)/$1/librepro.a: $$(filter-out $(BUILD)/$1/src/main.o,$$($1_objects)) $$($1_gen) $(BUILD)/$1/gen/files
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && $(cross)ar rcsD $$@ $$(filter %.o,$$^)
$(BUILD)/$1/repro: $$($1_objects) $$($1_gen) $(BUILD)/$1/gen/files
	$$(call say,LD,$$@)
	$$(Q)$$($1_cc) $$(filter-out %fuzzer,$$($1_flags)) $$(subst $$(comma)fuzzer,,$$($1_ldflags)) $$(filter %.o,$$^) -o $$@ $$($1_libs)

# Test programs: tests/DIR/test_x.c with the other .c files of DIR, which are helpers.
$(BUILD)/$1/tests/unit/%: $(BUILD)/$1/tests/unit/%.o $(call helpers,$1,unit) $(BUILD)/$1/librepro.a
	$$(call say,LD,$$@)
	$$(Q)$$($1_cc) $$($1_flags) $$($1_ldflags) $$(filter %.o,$$^) $$(filter %.a,$$^) -o $$@ $$($1_libs)
$(BUILD)/$1/tests/ops/%: $(BUILD)/$1/tests/ops/%.o $(call helpers,$1,ops) $(BUILD)/$1/librepro.a
	$$(call say,LD,$$@)
	$$(Q)$$($1_cc) $$($1_flags) $$($1_ldflags) $$^ -o $$@ $$($1_libs)
$(BUILD)/$1/tests/cuda/%: $(BUILD)/$1/tests/cuda/%.o $(call helpers,$1,cuda) \
	$(patsubst %.c,$(BUILD)/$1/%.o,$(wildcard src/backend/cuda/*.c src/gpu/nccl_*.c)) \
		$(BUILD)/$1/librepro.a
	$$(call say,LD,$$@)
	$$(Q)$$($1_cc) $$($1_flags) $$($1_ldflags) $$(filter %.o,$$^) $$(filter %.a,$$^) -o $$@ $$($1_libs)
$(BUILD)/$1/tests/bench/%: $(BUILD)/$1/tests/bench/%.o $(BUILD)/$1/librepro.a
	$$(call say,LD,$$@)
	$$(Q)$$($1_cc) $$($1_flags) $$($1_ldflags) $$^ -o $$@ $$($1_libs)
$(BUILD)/$1/tests/fuzz/%: $(BUILD)/$1/tests/fuzz/%.o $(call helpers,$1,fuzz) $(BUILD)/$1/librepro.a
	$$(call say,LD,$$@)
	$$(Q)$$($1_cc) $$($1_flags) $$($1_ldflags) $$(if $$(filter fuzz,$1),$$(filter-out %/replay.o,$$^),$$^) -o $$@ $$($1_libs)
endef
comma := ,
helpers = $(patsubst %.c,$(BUILD)/$1/%.o,$(filter-out tests/$2/test_% tests/$2/fuzz_%,$(wildcard tests/$2/*.c)))
$(foreach v,$(variants),$(eval $(call variant,$v)))
# Kernels read nothing of a stranger, and clang does not compile the assembler of gemm_avx512.c.
$(patsubst %.c,$(BUILD)/fuzz/%.o,$(wildcard src/backend/cpu/*.c)): private fuzz_line = $(native_line)
-include $(foreach v,$(variants),$(wildcard $(BUILD)/$v/src/*.d $(BUILD)/$v/src/*/*.d $(BUILD)/$v/src/*/*/*.d \
	$(BUILD)/$v/gen/*.d \
	$(BUILD)/$v/tests/*/*.d))

# For editors: how the native variant compiles every file.
compile_commands.json: FORCE
	$(file >$@.new,[)
	$(foreach s,$(sources) $(tests),$(file >>$@.new,$(if $(filter $s,$(firstword $(sources))),,$(comma)){"directory": \
		"$(CURDIR)"$(comma) "file": "$s"$(comma) "command": "$(native_line) $(call own_flags,$s,native) -c $s"}))
	$(file >>$@.new,])
	$(Q)mv $@.new $@

$(BUILD)/repro: $(BUILD)/static/repro
	$(call say,STRIP,$@)
	$(Q)$(cross)strip -o $@.new $< && mv $@.new $@

# What tests/run.sh starts: unit tests and fuzz targets with the address sanitizer, tests of operations at full speed,
# those of threads with the thread sanitizer. check-built: what its --check needs.
asan_tests := $(patsubst %.c,$(BUILD)/asan/%,$(filter tests/unit/%,$(tests)) $(fuzzers))
native_tests := $(patsubst %.c,$(BUILD)/native/%,$(filter tests/ops/%,$(tests)))
tsan_tests := $(patsubst %.c,$(BUILD)/tsan/%,$(wildcard tests/unit/test_pool*.c tests/unit/test_mesh*.c))
check-built: $(BUILD)/repro $(filter-out %/fuzz/%,$(asan_tests))
coverage-built: $(BUILD)/coverage/repro $(patsubst %.c,$(BUILD)/coverage/%,$(filter tests/unit/%,$(tests)))
tests-built: check-built $(BUILD)/native/repro $(BUILD)/asan/repro $(asan_tests) $(native_tests) $(tsan_tests)

# --- installation ---------------------------------------------------------------------------------------------------
share := $(DESTDIR)$(PREFIX)/share
run_built := $(if $(cross),qemu-aarch64-static )$(BUILD)/repro
install: $(BUILD)/repro
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)install -D -m 755 $(BUILD)/repro $(DESTDIR)$(PREFIX)/bin/repro
	$(Q)$(run_built) help --man >$(BUILD)/repro.1
	$(Q)$(run_built) help --completion bash >$(BUILD)/repro.bash
	$(Q)$(run_built) help --completion zsh >$(BUILD)/_repro
	$(Q)$(run_built) help --completion fish >$(BUILD)/repro.fish
	$(Q)install -D -m 644 $(BUILD)/repro.1 $(share)/man/man1/repro.1
	$(Q)install -D -m 644 $(BUILD)/repro.bash $(share)/bash-completion/completions/repro
	$(Q)install -D -m 644 $(BUILD)/_repro $(share)/zsh/site-functions/_repro
	$(Q)install -D -m 644 $(BUILD)/repro.fish $(share)/fish/vendor_completions.d/repro.fish
	$(Q)install -d $(share)/repro/recipes && install -m 644 $(wildcard recipes/*.*) $(share)/repro/recipes/
	$(Q)install -D -m 644 LICENSE $(share)/doc/repro/LICENSE
	$(Q)install -D -m 644 $(BUILD)/static/gen/LICENSES.txt $(share)/doc/repro/LICENSES.txt

# The files of a release, in BUILD/dist: env/dist.sh lists them.
dist: $(BUILD)/repro
	$(call say,DIST,$(BUILD)/dist)
	$(Q)CC='$(CC)' env/dist.sh $(BUILD)/dist $< $(BUILD)/static/gen/deps.txt $(VERSION) $(COMMIT) $(DIRTY) $(firstword $(subst -, ,$(shell $(CC) -dumpmachine))) \
		$(if $(static_gpu),CUDA=1) $(foreach v,ARCHS NVCC,$(if $(filter command line,$(origin $v)),'$v=$($v)'))

endif

include env/goals.mk # goals that start a make of their own
