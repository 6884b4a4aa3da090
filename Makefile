# repro: build, tests, installation. `make help` lists what there is.
#
# Variables (on the command line or in the environment):
#   V=1            print commands
#   JOBS=N         parallel jobs, default: all processors (a -jN of make itself wins)
#   BUILD=DIR      where everything built goes, default build
#   DEPS_DIR=DIR   where the dependencies are built once, default $(BUILD)/deps; several checkouts may share one
#   DEPS_MIRROR=D  a directory with the sources of env/deps.lock, tried before the network; OFFLINE=1: no network
#   DEPS_LOCK=FILE another lock file than env/deps.lock
#   ARCH=aarch64   only on the command line: the program for 64-bit Arm, cross-compiled to BUILD/aarch64; of the goals all, check, deps,
#                  setup, install, dist, clean and distclean
#   STRICT=1       refuse a dependency whose pinned version has left the archive
#   CUDA=1         with the GPU worker, from the wheels of env/cuda.lock; no CUDA installation needed. Without it the program
#                  cannot use GPUs and reports that. `make test` and `make check` build it where the wheels can be had; CUDA=0: never
#   CUDA_HOME=DIR  with CUDA=1, only on the command line: headers and libcudart_static.a of this installed toolkit instead
#   NVCC=PATH      with CUDA=1, only on the command line: device code by this compiler of CUDA 12 or 13 (which knows no sm_70), not by
#                  the pinned NVRTC
#   PTX=LIST       with tests-built: architectures for which tests/ptx gets PTX, default compute_70 compute_90
#   SASS=LIST      with tests-built: architectures whose machine code tests/sass executes, default sm_90
#   ARCHS=LIST     with CUDA=1: device code for these only, to try something: sm_90 compute_100
#   COMMIT=HEX     the commit, where there is no git (tarballs of `git archive` know theirs)
#   CC=gcc         Debian's gcc, wrapped by env/repro-cc
#   SAN=asan|tsan  with the target `all`: that native build, BUILD/SAN/repro, instead of the static program
#   T=PATTERN      with `test` or `check`: only tests whose name contains it; LONG=1: everything that takes minutes
#   PREFIX, DESTDIR  with `install`, default /usr/local and nothing
#   REPRO_KEY=FILE with `dist`: the private key that signs the release
#   BASE=IMAGE     with `image`: the base of the image for GPU users; PLATFORMS=linux/amd64,linux/arm64: manifest lists of both
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
.PHONY: all run check test ptx-check sass-check bench oracle gpu-check gpu-pack lint format fuzz fuzz-all image install dist clean distclean help deps setup \
	check-built coverage-built tests-built coverage FORCE
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# Goals that set the machine up or only remove things start a make of their own for what they build, so that they work
# where there is no compiler yet.
NO_BUILD := run check test coverage ptx-check sass-check bench oracle gpu-check gpu-pack lint format image clean distclean help setup fuzz fuzz-all
ifneq ($(filter-out $(NO_BUILD),$(or $(MAKECMDGOALS),all)),)

# --- what goes in ---------------------------------------------------------------------------------------------------
other_machines := $(if $(filter x86_64,$(ARCH)),%_neon.c,%_avx2.c %_avx512.c %/ops_scalar_fma.c)
sources := $(filter-out src/gpu/% src/backend/cuda/% $(other_machines),$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))) src/backend/cuda/needs.c
embedded := LICENSE $(sort $(filter-out %.md %/,$(wildcard recipes/*.yaml recipes/*.json recipes/*.tar.* recipes/*.zip \
	src/*/*.sh src/*/*.css src/*/*/*.json src/*/*/*.in results/published/*.csv results/published/*.json \
	results/published/tensor_core/*)))
# The cases of the GPT report of 2021: a recipe of fp32 and one of fp16 for each name of its table, embedded as recipes/gpt/NAME.yaml.
gpt_table := results/published/gpt_v100.csv
gpt_cases := $(addprefix $(BUILD)/recipes/gpt/,$(addsuffix .yaml,$(shell sed '1d;s/,.*//' $(gpt_table) | uniq | sed 'p;s/$$/_fp16/')))
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
warnings := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wformat=2 -Wundef
# GCC on x86 contracts a * b + c at -O2 where FMA is allowed; tests/ops/test_contract.c checks that it would be noticed.
common := -std=gnu11 -ffp-contract=off$(if $(filter aarch64,$(ARCH)), -fsigned-char) -D_GNU_SOURCE -Isrc -I. $(warnings) -ffile-prefix-map=$(CURDIR)=. -fno-record-gcc-switches
# musl has no checked string functions and Debian 12 no fortify-headers, so _FORTIFY_SOURCE would be a flag without effect here.
harden := -fPIE -fstack-protector-strong
ifeq ($(ARCH),x86_64) # aarch64 always has its vectors, and one instruction for fmaf()
fma := -mfma
f16c := -mf16c
avx2 := -mavx2 $(fma) $(f16c)
avx512 := -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512
endif
# What a file needs besides the flags of its variant. gemm_avx512.c has offsets that only become constants from -O2 on.
# reference.c, the definition that tests compare with, is several times faster with an instruction for fmaf(), and without sanitizers.
own_flags = $(strip $(if $(filter %_avx2.c,$1),$(avx2)) \
	$(if $(filter %_avx512.c,$1),$(avx512)) $(if $(filter %/gemm_avx512.c,$1),-O2) $(if $(filter %_popcount_avx512.c,$1),-mavx512vpopcntdq) \
	$(if $(findstring /tc_tile_,$1),$(f16c)) \
	$(if $(filter native/src/ops/reference.c,$2/$1),$(fma)) $(if $(filter asan/src/ops/reference.c,$2/$1),$(asan_reference)) \
	$(if $(filter $(no_arithmetic:%=native/src/%/%),$2/$1),$(native_no_arithmetic)) \
	$(if $(filter asan/src/backend/cpu/%,$2/$1),$(asan_kernels)) $(if $(filter asan/tests/%,$2/$1),$(asan_tests_flags)) \
	$(if $(filter coverage/src/backend/cpu/% coverage/src/ops/%,$2/$1),$(coverage_kernels)))

static_libs := -ljpeg -lgit2 -lhttp_parser -lhwloc -larchive -lssl -lcrypto -ljansson -lyaml -llzma -lzstd -lbz2 -llz4 -lz -lpthread -lm
native_libs := -ljpeg -lgit2 -lhwloc -larchive -lssl -lcrypto -ljansson -lyaml -lzstd -lz -lpthread -lm
native_packages := libgit2-dev libhwloc-dev libjpeg62-turbo-dev libarchive-dev libssl-dev libjansson-dev libyaml-dev libzstd-dev zlib1g-dev

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
# Everything of a variant lies in BUILD/VARIANT: objects by source path, gen/, librepro.a (all but main.c), repro, tests.
variants := static native asan tsan coverage fuzz
static_cc := RP_SYSROOT=$(sysroot) env/repro-cc
static_flags := -O2 $(harden) -ffunction-sections -fdata-sections
static_ldflags := -static-pie -Wl,--gc-sections,-z,relro,-z,now,-z,noexecstack,--build-id=none
# Cross-compiled it is what `make test` runs in an emulator, with Debian's libraries: env/fetch-arm64.sh takes seconds where the dependencies of
# the static program take minutes.
arm64 := $(if $(cross),$(shell env/fetch-arm64.sh --dir $(DEPS_DIR)))
native_cc := $(CC)$(if $(cross), --sysroot=$(arm64))
native_flags := -O2 $(if $(cross),-g0,-g1)
# Folders that compute nothing: a third of the time to compile.
native_no_arithmetic := -O0 -Wno-format-truncation
no_arithmetic := bundle capture cli compare estimate export import launch ledger page recipe report run sign supervise verify
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
# -O1 and -g1 halve the compile time. For the kernels two checks are left out, since the address sanitizer finds what they would find, and
# accesses are checked by calls; lanes.h asks for no more than -O1 there: 7 s instead of 39 s for ops_avx2.c.
asan_cc := $(CC)
asan_flags := -O1 -g1 $(quiet) -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
asan_kernels := -fno-sanitize=null,pointer-overflow --param asan-instrumentation-with-call-threshold=0
asan_reference := $(if $(filter-out 0,$(LONG)),,-O2 $(fma) -fno-sanitize=all)
# Tests themselves: a third of the time to compile; what they do to memory is still watched. They run in the order that they have with -O1.
asan_tests_flags := -O0 -ftoplevel-reorder -fno-sanitize=undefined
asan_ldflags := -fsanitize=address,undefined $(gold)
tsan_cc := $(CC)
tsan_flags := -O1 -g1 $(quiet) -fsanitize=thread
tsan_ldflags := -fsanitize=thread $(gold)
# What the tests of threads link, and no more.
tsan_sources := $(if $(filter tsan,$(SAN)),$(sources),$(filter $(addprefix src/,$(addsuffix /%,base ops sign backend comm data)) src/train/prefetch.c,$(sources)))
# Kernels are not counted: tests/ops, which compares them, is not among the tests that make coverage runs.
coverage_cc := $(CC)
coverage_flags := -O1 -g1 $(quiet) -fprofile-arcs -ftest-coverage -fprofile-update=atomic
coverage_kernels := -O2 -fno-profile-arcs -fno-test-coverage
coverage_ldflags := --coverage -Wl,--wrap=_exit,--wrap=_Exit
coverage_sources := $(sources) tests/coverage/exit.c
fuzz_cc := clang
fuzz_flags := -O2 -g -fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
fuzz_ldflags := -fsanitize=address,undefined,fuzzer
$(foreach v,$(variants),$(eval $v_libs ?= $(native_libs)))
# The kernels of the product itself: tests/ops compares the code that ships, and tests with sanitizers are about what is around it. With LONG=1
# the address sanitizer watches kernels too; without, tests/valgrind does.
shipped := $(filter-out $(other_machines),$(wildcard $(addprefix src/backend/cpu/,ops_*.c gemm_*.c tc_tile_*.c)))
native_shipped := $(if $(cross),,$(shipped))
tsan_shipped := $(shipped)
asan_shipped := $(if $(filter-out 0,$(LONG)),,$(shipped))
static_libs_dir := $(sysroot)/lib

# --- repro-gpu ------------------------------------------------------------------------------------------------------
# The GPU worker: a program of its own, linked with glibc, that loads NVIDIA's libraries. It travels in the static program.
#   BUILD/gpu/repro-gpu, .zst   the program
#   BUILD/gpu/include           CUDA's and NVML's headers (a link)
#   BUILD/gpu/device/ARCH/NAME  src/backend/cuda/NAME.cu compiled for one architecture; .txt: what ptxas said, .zst: packed
#   BUILD/gpu/gen/images.c, .S  the table of all of them
#   BUILD/gpu/about.txt         for the build record: CUDA's version, digest and size of the program
#   BUILD/gpu/images.txt        and the compiler, digests and sizes of the device code
ifneq ($(filter install dist,$(MAKECMDGOALS)),)
CUDA ?= $(shell grep -qs repro-gpu $(BUILD)/static/gen/files && echo 1) # what was built is installed or released
endif
ifneq ($(filter-out 0,$(CUDA)),)
gpu := $(BUILD)/gpu
# What it asks, and what it trains with: the same model, data and loop as repro, over another backend. Of these folders the linker takes what
# the program calls; of the others they are named.
gpu_sources := $(sort $(wildcard $(patsubst %,src/%/*.c,gpu backend/cuda backend base process recipe ops comm model model/nn optim train worker data/image))) src/capture/probe.c src/backend/cpu/pool.c src/backend/cpu/limits.c \
	$(filter-out $(addprefix src/data/,archive%.c embedded_data.c marker.c names.c prepare.c store.c),$(sort $(wildcard src/data/*.c))) # readers alone
gpu_line := $(CC) $(common) -O2 $(harden) -ffunction-sections -fdata-sections -ffile-prefix-map=$(sysroot)=/sysroot \
	-DRP_GPU_WORKER -isystem $(gpu)/include -isystem $(sysroot)/src/jansson -isystem $(gpu)/linked
# Of these, what is compiled for sm_90a alone, whose image is loaded besides that of sm_90.
more_code := src/backend/cuda/gemm16_wgmma.cu
device_code := $(filter-out $(more_code),$(sort $(wildcard src/backend/cuda/*.cu)))
code_for = $(if $(filter %a,$1),$(more_code),$(device_code))
# Machine code also runs on later minor versions of its architecture; the PTX serves what has none: 11.0, and all after 12.
# With processors of Arm: Orin is 8.7, whose code no other GPU runs, GH200 9.0, GB200 10.0, GB300 10.3, GB10 12.1; Thor is 11.0 since CUDA 13,
# where NVRTC 12 knows it as 10.1: PTX. Cards beside Graviton, Altra and Grace are T4G, A100 with A10 and A40, and L4. An architecture takes
# 0.9 to 1.2 MB of the program, which has 20.7 of 24 MB with them.
ifeq ($(ARCH),aarch64)
ARCHS ?= sm_75 sm_80 sm_87 sm_89 sm_90 sm_90a sm_100 sm_121 compute_100
endif
ARCHS ?= sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 sm_90a sm_100 sm_120 compute_100
ifeq ($(origin CUDA_HOME),command line)
NVCC := $(or $(NVCC),$(CUDA_HOME)/bin/nvcc)
cudart := $(firstword $(wildcard $(patsubst %,$(CUDA_HOME)/%/libcudart_static.a,lib64 lib targets/x86_64-linux/lib)))
ifeq ($(and $(cudart),$(wildcard $(CUDA_HOME)/include/nvml.h)),)
$(error CUDA_HOME: no libcudart_static.a below $(CUDA_HOME), or no include/nvml.h)
endif
cuda := $(CUDA_HOME)
cuda_version := $(shell awk '$$2 == "CUDART_VERSION" {print int($$3 / 1000) "." $$3 % 1000 / 10}' $(cuda)/include/cuda_runtime_api.h)
cuda_ready := $(cudart)
cuda_sources = echo "cuda-toolkit $(cuda_version) `sha256sum <$(cudart) | cut -d' ' -f1` libcudart_static.a"
cuda_licenses = cat $(wildcard $(cuda)/EULA.txt) /dev/null
else
ifneq ($(origin NVCC),command line)
NVCC :=
endif
cuda := $(shell env/fetch-cuda.sh --dir $(DEPS_DIR))
cudart := $(cuda)/lib/$(if $(cross),aarch64/)libcudart_static.a
cuda_version := $(firstword $(shell sed -n 's/^nvidia-cuda-runtime[^=]*==\([^ ]*\) .*/\1/p' env/cuda.lock))
cuda_ready := $(cuda)/sources.txt
cuda_sources = cat $(cuda)/$(if $(cross),aarch64,sources).txt
cuda_licenses = cat $(cuda)/LICENSES.txt
$(cuda)/sources.txt:
	$(Q)env/fetch-cuda.sh $(DEPS_DIR)
endif
ifneq ($(NVCC),)
nvcc_archs := $(shell $(NVCC) --list-gpu-code; $(NVCC) --list-gpu-arch)
archs := $(filter $(nvcc_archs),$(ARCHS))
ifeq ($(archs),)
$(error NVCC: '$(NVCC)' compiles for none of $(ARCHS))
endif
device_compiler := nvcc $(shell $(NVCC) --version | sed -n 's/.*, V\([0-9.]*\)$$/\1/p')
device_env := NVCC='$(NVCC)'
else
archs := $(ARCHS)
device_compiler := NVRTC $(shell sed -n 's/^nvidia-cuda-nvrtc[^=]*==\([^ ]*\) .*/\1/p' env/cuda.lock)
device_env := NVCC= NVRTC='$(gpu)/nvrtc $(cuda)/lib/libnvrtc.so.12'
endif
$(gpu)/flags: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' '$(gpu_line)' '$(cuda)' "`$(CC) --version | sed 1q`" $(gpu_sources) | $(call if_changed,$@)
$(gpu)/include: $(gpu)/flags $(cuda_ready)
	$(Q)mkdir -p $(gpu)/linked && ln -sfn $(addprefix $(sysroot)/include/,openssl yaml.h zlib.h zconf.h zstd.h zstd_errors.h jpeglib.h jconfig.h jmorecfg.h jerror.h) $(gpu)/linked/ && ln -sfn $(cuda)/include $@
$(gpu)/%.o: %.c $(gpu)/flags $(sysroot)/sources.txt | $(gpu)/include
	$(Q)mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(gpu_line) -MMD -MP -c $< -o $@
$(gpu)/libjansson.a: $(gpu)/flags $(sysroot)/sources.txt
	$(call say,AR,$@)
	$(Q)rm -rf $@ $(gpu)/jansson && mkdir -p $(gpu)/jansson
	$(Q)for f in $(sysroot)/src/jansson/*.c; do \
		$(gpu_line) -w -DHAVE_CONFIG_H -c $$f -o $(gpu)/jansson/`basename $$f .c`.o || exit 1; done
	$(Q)$(cross)ar rcsD $@ $(gpu)/jansson/*.o

# The device code. What it is compiled by and for is its own stamp.
device := $(foreach a,$(archs),$(patsubst src/backend/cuda/%.cu,$(gpu)/device/$a/%,$(call code_for,$a)))
$(gpu)/nvrtc: env/gpu/nvrtc.c $(gpu)/flags | $(gpu)/include
	$(call say,CC,$@)
	$(Q)$(host_cc) -std=gnu11 -O2 $(warnings) -isystem $(gpu)/include $< -o $@
$(gpu)/device/flags: FORCE
	$(Q)mkdir -p $(addprefix $(@D)/,$(archs) $(ptx_archs)) $(gpu)/gen
	$(Q)rm -rf $(filter-out $(addprefix $(@D)/,flags $(archs) $(ptx_archs)),$(wildcard $(@D)/*))
	$(Q)printf '%s\n' '$(device_env)' '$(device_compiler)' '$(archs)' $(device_code) $(more_code) | $(call if_changed,$@)
device_tools := $(gpu)/device/flags env/device-code.sh $(if $(NVCC),,$(gpu)/nvrtc) $(cuda_ready)
define device_for
$(gpu)/device/$1/%: src/backend/cuda/%.cu $(device_tools)
	$$(call say,$(firstword $(device_compiler)),$$@)
	$$(Q)$$(device_env) RP_GCC=$(host_cc) RP_DEVICE_CACHE=$(abspath $(DEPS_DIR))/device env/device-code.sh $1 $$< $$@
endef
$(foreach a,$(archs),$(eval $(call device_for,$a)))
$(addsuffix .zst,$(device)): %.zst: % $(gpu)/compress
	$(Q)$(gpu)/compress $< $@
$(gpu)/images.txt: $(addsuffix .zst,$(device)) $(gpu)/device/flags env/gen-images.sh
	$(call say,IMAGES,$(gpu)/gen/images.c$(addprefix $(comma) none for ,$(filter-out $(archs),$(ARCHS))))
	$(Q){ echo "$(device_compiler)" && \
		env/gen-images.sh $(gpu)/gen/images $(gpu)/device $(archs) -- $(notdir $(device_code:.cu=)) -- $(notdir $(more_code:.cu=)); } >$@
$(gpu)/gen/images.o: $(gpu)/images.txt $(gpu)/flags | $(gpu)/include
	$(Q)$(gpu_line) -c $(@:.o=.c) -o $@
$(gpu)/gen/images_bytes.o: $(gpu)/images.txt $(gpu)/flags
	$(Q)$(CC) -c $(gpu)/gen/images.S -o $@
-include $(addsuffix .d,$(device))

# The PTX behind the machine code, with markers, for tests/cuda/test_device_code.c, and the faults that it must find.
checked_archs := $(if $(filter sm_70 sm_75,$(archs)),compute_70) $(if $(filter sm_80 sm_86 sm_89,$(archs)),compute_80) \
	$(if $(filter sm_90,$(archs)),compute_90) $(if $(filter sm_90a,$(archs)),compute_90a)
checked := $(foreach a,$(checked_archs),$(patsubst src/backend/cuda/%.cu,$(gpu)/checked/$a/%,$(call code_for,$a)))
planted := $(patsubst %,$(gpu)/planted/%/planted,sm_80 compute_80)
define checked_for
$(gpu)/checked/$1/%: src/backend/cuda/%.cu tests/cuda/checked.cu $(device_tools)
	$$(Q)mkdir -p $$(@D)
	$$(call say,$(firstword $(device_compiler)),$$@)
	$$(Q)$$(device_env) RP_DEVICE_CACHE=$(abspath $(DEPS_DIR))/device env/device-code.sh $1 tests/cuda/checked.cu $$@ \
		'-DRP_CHECKED=<backend/cuda/$$*.cu>'
endef
$(foreach a,$(checked_archs),$(eval $(call checked_for,$a)))
$(planted): $(gpu)/planted/%/planted: tests/cuda/planted.cu tests/cuda/checked.cu $(device_tools)
	$(Q)mkdir -p $(@D)
	$(call say,$(firstword $(device_compiler)),$@)
	$(Q)$(device_env) env/device-code.sh $* tests/cuda/checked.cu $@ '-DRP_CHECKED=<tests/cuda/planted.cu>'
-include $(addsuffix .d,$(checked) $(planted))
tests-built: $(checked) $(planted)

gpu_objects := $(patsubst %.c,$(gpu)/%.o,$(gpu_sources)) $(gpu)/gen/images.o $(gpu)/gen/images_bytes.o
$(gpu)/repro-gpu: $(gpu_objects) $(gpu)/libjansson.a env/link-gpu.sh env/gpu/start.S env/gpu/init.c $(cuda_ready)
	$(call say,LD,$@)
	$(Q)env/link-gpu.sh $@ $(filter %.o %.a,$^) $(cudart) $(addprefix $(sysroot)/lib/,libssl.a libcrypto.a libzstd.a libjpeg.a libz.a)
$(gpu)/compress: env/gpu/compress.c $(gpu)/flags $(sysroot)/sources.txt
	$(Q)$(if $(cross),gcc -O2,$(static_cc) -O2 $(static_ldflags)) $< -o $@ -lzstd # cross-compiled: with this machine's library
$(gpu)/repro-gpu.zst: $(gpu)/repro-gpu $(gpu)/compress
	$(call say,ZSTD,$@)
	$(Q)$(gpu)/compress $< $@
$(gpu)/about.txt: $(gpu)/repro-gpu
	$(Q)echo "$(cuda_version) `sha256sum <$< | cut -d' ' -f1` `stat -c %s $<`" >$@
static_gpu := $(gpu)/repro-gpu.zst
-include $(patsubst %.c,$(gpu)/%.d,$(gpu_sources))

# A libnvidia-ml.so.1 for tests that plays a machine: with the functions of driver 440, and with all.
fakes := $(BUILD)/fake/440/libnvidia-ml.so.1 $(BUILD)/fake/570/libnvidia-ml.so.1
$(fakes): $(BUILD)/fake/%/libnvidia-ml.so.1: tests/fake/nvml.c tests/fake/play.h $(gpu)/flags $(gpu)/include
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(common) -O2 -g -shared -fPIC -DDRIVER=$* -isystem $(gpu)/include -Wl,-soname,$(@F) $< -o $@
check-built: $(fakes)
# And a libnccl.so.2, between processes that use the libcuda.so.1 below.
fake_nccl := $(BUILD)/fake/nccl/libnccl.so.2
$(fake_nccl): tests/fake/nccl.c src/gpu/nccl_library.h tests/shim/driver.h $(gpu)/flags $(gpu)/include
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(common) -O2 -g -shared -fPIC -fvisibility=hidden -isystem $(gpu)/include -Wl,-soname,$(@F) $< -o $@
# And one that is preloaded, and notes that a process ended in order.
$(BUILD)/fake/ending.so: tests/fake/ending.c $(gpu)/flags
	$(Q)mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(common) -O2 -g -shared -fPIC $< -o $@
tests-built: $(fake_nccl) $(BUILD)/fake/ending.so

# A libcuda.so.1 for tests that executes the device code on the CPU: as sm_80 and later, as older GPUs, and each with every access to memory
# checked (tests/shim/check.c); products and convolutions of 16 bits only with LONG=1: tests/ptx checks those of the compiled code.
shim_line := $(CC) $(common) -O1 -g1 -fPIC -fvisibility=hidden -mavx2 -mfma -fsanitize=alignment -fsanitize-undefined-trap-on-error -DRP_SHIM -isystem $(gpu)/include
shim_checked := -DSHIM_CHECKED
shim_watch := -fsanitize=thread --param tsan-instrument-func-entry-exit=0
define shim
shim_$1_objects := $(patsubst %.cu,$(BUILD)/shim/$6/%.o,$5) $(patsubst %,$(BUILD)/shim/$1/%.o,$(basename $(filter-out $5,$(device_code)) $(filter-out $(if $3,,%/check.c),$(wildcard tests/shim/*.c $(if $3,tests/shim/*.cu)))))
$(BUILD)/shim/$1/%.o: shim_line += -D__CUDA_ARCH__=$2 $3
$(BUILD)/shim/$1/tests/shim/shim.o: private shim_line += -O3
$(BUILD)/shim/$1/%.o: %.cu $(gpu)/flags | $(gpu)/include
	$$(Q)mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(shim_line) $4 -include tests/shim/shim.h -MMD -MP -x c -c $$< -o $$@
$(BUILD)/shim/$1/%.o: %.c $(gpu)/flags | $(gpu)/include
	$$(Q)mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(shim_line) -MMD -MP -c $$< -o $$@
$(BUILD)/shim/$1/libcuda.so.1: $$(shim_$1_objects)
	$$(call say,LD,$$@)
	$$(Q)$(CC) -shared -Wl,-soname,$$(@F) $$^ -o $$@ -lm
-include $$(shim_$1_objects:.o=.d)
endef
shim_unchecked := $(if $(filter-out 0,$(LONG)),,$(addprefix src/backend/cuda/,gemm16.cu conv16.cu))
# The same code for all GPUs: tests/build/device_code.sh compares its PTX.
shim_alike := $(filter-out $(addprefix src/backend/cuda/,attention% conv% gemm%),$(device_code))
shims := $(patsubst %,$(BUILD)/shim/%/libcuda.so.1,800 700 checked $(if $(filter-out 0,$(LONG)),checked700))
$(eval $(call shim,800,800))
$(eval $(call shim,700,700,,,$(shim_alike),800))
$(eval $(call shim,checked,800,$(shim_checked),$(shim_watch),$(shim_unchecked),800))
$(eval $(call shim,checked700,700,$(shim_checked),$(shim_watch),$(shim_unchecked),700))

# A libcuda.so.1 for tests that executes the compiled PTX (tests/ptx), and PTX for it besides what ships.
ptx_line := $(CC) $(common) -O3 -g -fPIC -fvisibility=hidden -mavx2 -mfma -fno-math-errno -fno-trapping-math -DRP_SHIM -isystem $(gpu)/include
ptx_objects := $(patsubst %.c,$(BUILD)/shim/ptx/%.o,$(wildcard tests/ptx/*.c tests/simt/*.c) $(addprefix tests/shim/,driver.c launch.c memory.c order.c stream.c))
$(BUILD)/shim/ptx/%.o: %.c $(gpu)/flags | $(gpu)/include
	$(Q)mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(ptx_line) -MMD -MP -c $< -o $@
$(BUILD)/shim/ptx/libcuda.so.1: $(ptx_objects)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $^ -o $@ -lm
-include $(ptx_objects:.o=.d)
PTX ?= compute_70 compute_90
ptx_archs := $(filter-out $(archs),$(if $(NVCC),$(filter $(nvcc_archs),$(PTX)),$(PTX)))
$(foreach a,$(ptx_archs),$(eval $(call device_for,$a)))
ptx_images := $(foreach a,$(ptx_archs),$(patsubst src/backend/cuda/%.cu,$(gpu)/device/$a/%,$(call code_for,$a)))
-include $(addsuffix .d,$(ptx_images))
tests-built: $(BUILD)/shim/ptx/libcuda.so.1 $(ptx_images)

# One that executes machine code (tests/sass), and nvdisasm's text of that code; without the disassembler, there is no text.
# BUILD/sass/ARCH/NAME is a link to the cubin, NAME.sass the text.
sass_objects := $(patsubst %.c,$(BUILD)/shim/sass/%.o,$(wildcard tests/sass/*.c tests/simt/*.c) $(addprefix tests/shim/,driver.c launch.c memory.c order.c stream.c))
$(BUILD)/shim/sass/%.o: %.c $(gpu)/flags | $(gpu)/include
	$(Q)mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(ptx_line) -frounding-math -MMD -MP -c $< -o $@
$(BUILD)/shim/sass/libcuda.so.1: $(sass_objects)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,$(@F) $^ -o $@ -lm
-include $(sass_objects:.o=.d)
SASS ?= sm_90
sass_archs := $(filter $(archs),$(SASS) $(addsuffix a,$(SASS)))
sass_texts := $(foreach a,$(sass_archs),$(patsubst src/backend/cuda/%.cu,$(BUILD)/sass/$a/%.sass,$(call code_for,$a)))
disassembler := $(shell env/fetch-nvdisasm.sh --dir $(DEPS_DIR))/nvdisasm
$(BUILD)/sass/flags: FORCE
	$(Q)mkdir -p $(addprefix $(@D)/,$(sass_archs))
	$(Q)rm -f $(filter-out $(sass_texts),$(wildcard $(patsubst %,$(@D)/%/*.sass,$(sass_archs))))
	$(Q)env/fetch-nvdisasm.sh $(DEPS_DIR) || echo "no disassembler: tests/sass will be skipped" >&2
	$(Q)echo '$(disassembler)' | $(call if_changed,$@)
$(sass_texts): $(BUILD)/sass/%.sass: $(gpu)/device/% $(BUILD)/sass/flags
	$(call say,SASS,$@)
	$(Q)ln -sfn $(abspath $<) $(BUILD)/sass/$* && rm -f $@
	$(Q)[ ! -x $(disassembler) ] || { $(disassembler) -c $< >$@.new 2>$@.err || { cat $@.err >&2; false; }; mv $@.new $@; }
tests-built: $(BUILD)/shim/sass/libcuda.so.1 $(sass_texts)

# The host side of the CUDA backend, with the libraries of this machine, for tests against that driver.
cuda_tests := $(patsubst %.c,$(BUILD)/native/%,$(wildcard tests/cuda/test_*.c))
cuda_native := $(patsubst %.c,$(BUILD)/native/%.o,$(wildcard src/backend/cuda/*.c src/gpu/nccl_*.c tests/cuda/*.c))
$(cuda_native): private native_line += -isystem $(gpu)/include
$(cuda_native): | $(gpu)/include
tests-built: $(shims) $(cuda_tests)

# The queries of NVML, with sanitizers.
gpu_tested := $(addprefix $(BUILD)/asan/src/gpu/,library.o nvml.o nvml_links.o nvml_table.o sampler.o)
$(gpu_tested): private asan_line += -isystem $(gpu)/include
$(gpu_tested): | $(gpu)/include
$(BUILD)/asan/tests/unit/test_gpu_nvml $(BUILD)/asan/tests/unit/test_gpu_telemetry: $(gpu_tested)
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

$(BUILD)/$1/gen/deps.txt: $(BUILD)/$1/flags $(BUILD)/$1/gen/files $(if $(filter static,$1),$(sysroot)/sources.txt) $(if $($1_gpu),$(cuda_ready))
	$$(Q)$(if $(filter static,$1),{ $(if $($1_gpu),$$(cuda_sources); )cat $(sysroot)/sources.txt; },dpkg-query -W -f '$$$${Package} $$$${Version} - system\n' \
		$(native_packages) 2>/dev/null) | $$(call if_changed,$$@)
	$$(Q)touch $$@
$(BUILD)/$1/gen/LICENSES.txt: $(BUILD)/$1/gen/deps.txt
	$$(Q)$(if $(filter static,$1),{ cat $(sysroot)/LICENSES.txt$(if $($1_gpu),; $$(cuda_licenses)); },echo This build uses libraries of the system it was built on.) >$$@
$(BUILD)/$1/gen/build.c: FORCE env/gen-build.sh $(BUILD)/$1/gen/deps.txt $(if $($1_gpu),$(gpu)/about.txt $(gpu)/images.txt)
	$$(Q)env/gen-build.sh '$(VERSION)' '$(COMMIT)' '$(DIRTY)' "`sed -n '$$$$p' $(BUILD)/$1/flags`" \
		'$$(subst $(CURDIR),.,$$(subst $(sysroot),SYSROOT,$$($1_line) $$($1_ldflags)))' $(BUILD)/$1/gen/deps.txt "$(if $($1_gpu),`cat $(gpu)/about.txt`)" \
		$(if $($1_gpu),$(gpu)/images.txt,/dev/null) | $$(call if_changed,$$@)
$(BUILD)/$1/gen/embed.c: $(BUILD)/$1/gen/files $(BUILD)/$1/gen/LICENSES.txt $(embedded) $(gpt_cases) $($1_gpu) env/gen-embed.sh
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
$(BUILD)/$1/tests/cuda/%: $(BUILD)/$1/tests/cuda/%.o $(call helpers,$1,cuda) $(patsubst %.c,$(BUILD)/$1/%.o,$(wildcard src/backend/cuda/*.c src/gpu/nccl_*.c)) \
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
-include $(foreach v,$(variants),$(wildcard $(BUILD)/$v/src/*.d $(BUILD)/$v/src/*/*.d $(BUILD)/$v/src/*/*/*.d $(BUILD)/$v/gen/*.d \
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

# What tests/run.sh starts: unit tests and fuzz targets with the address sanitizer, tests of operations at full speed, those of threads with the
# thread sanitizer. check-built: what its --check needs.
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

# --- goals that start a make of their own ---------------------------------------------------------------------------
again = +$(Q)$(MAKE) --no-print-directory
setup:
	$(Q)env/setup.sh $(if $(cross),$(setup),$(if $(filter-out 0,$(CUDA)),cuda,$(setup)))
run:
	$(Q)env/setup.sh build
	$(again) all SAN=
	$(Q)env/run.sh $(BUILD)/repro
ifdef cross
# Both programs, whose bundles each verifies and replays of the other.
check:
	$(Q)env/setup.sh aarch64
	$(again) all
	$(again) all ARCH=$(machine) BUILD=$(top) DEPS_DIR=$(DEPS_DIR) CUDA=$(if $(shell grep -s repro-gpu $(top)/static/gen/files),1)
	$(Q)BUILD=$(abspath $(top)) JOBS=$(JOBS) tests/run.sh --no-skip build/aarch64
endif
# And the program for 64-bit Arm, with which tests/build/aarch64.sh compares this one.
arm_program := $(if $(filter x86_64,$(machine)),$(BUILD)/aarch64/native/repro)
ifndef cross
check test:
	$(Q)env/setup.sh test
	+$(Q)$(MAKE) --no-print-directory $(patsubst test,tests,$@)-built CUDA=$(or $(CUDA),`env/fetch-cuda.sh $(DEPS_DIR) >&2 && echo 1 || \
		echo "no GPU worker: its tests will be skipped" >&2`)
	+$(Q)$(if $(filter test,$@),$(if $(arm_program),if env/fetch-arm64.sh $(DEPS_DIR) >&2; then $(MAKE) --no-print-directory ARCH=aarch64 CUDA= \
		$(arm_program); else echo "no libraries of 64-bit Arm: their tests will be skipped" >&2; fi))
	$(Q)BUILD=$(abspath $(BUILD)) JOBS=$(JOBS) tests/run.sh $(if $(filter check,$@),--check) $(T)
endif
coverage:
	$(Q)env/setup.sh test
	$(again) $(if $(FUZZ),$(patsubst %,$(BUILD)/coverage/tests/fuzz/fuzz_%,$(FUZZ)),coverage-built)
	$(Q)find $(BUILD)/coverage -name '*.gcda' -delete
	$(Q)failed=; $(if $(FUZZ),for name in $(FUZZ); do mkdir -p $(BUILD)/corpus/$$name; $(BUILD)/coverage/tests/fuzz/fuzz_$$name \
		tests/fuzz/corpus/$$name $(BUILD)/corpus/$$name 2>/dev/null || failed=1; done, \
		BUILD=$(abspath $(BUILD)) JOBS=$(JOBS) tests/run.sh --coverage $(T) || failed=1); \
		tests/coverage/lines.sh $(BUILD) $(RANGES) && [ ! "$$failed" ]
bench:
	$(Q)env/setup.sh bench
	$(again) $(BUILD)/repro $(BUILD)/native/repro $(BUILD)/native/tests/bench/bundle_gen $(BUILD)/native/tests/bench/ranks_bench
	$(Q)tests/bench/run.sh $(BUILD)
oracle:
	$(Q)env/setup.sh bench
	$(again) $(BUILD)/repro
	$(Q)tests/oracle/run.sh $(BUILD)
ptx-check:
	$(Q)env/setup.sh test
	$(again) tests-built CUDA=1 PTX="$(addprefix compute_,70 75 80 86 89 90 90a 120)"
	$(Q)BUILD=$(abspath $(BUILD)) tests/ptx/full/check.sh
sass-check:
	$(Q)env/setup.sh test
	$(again) tests-built CUDA=1 SASS="$(addprefix sm_,75 80 86 89 90 100 120)"
	$(Q)BUILD=$(abspath $(BUILD)) tests/sass/full/check.sh
gpu-check:
	$(Q)env/setup.sh test
	$(again) all SAN= CUDA=1
	$(Q)cd $(BUILD) && $(CURDIR)/tests/gpu/check.sh repro
# BUILD/gpu-check.tar.gz, for a machine with a GPU and without a checkout: tests/gpu/README.md has the command lines.
gpu-pack:
	$(Q)env/setup.sh test
	$(again) all SAN= CUDA=1
	$(Q)env/pack-gpu-check.sh $(BUILD)
lint:
	$(Q)env/setup.sh lint
	$(again) $(BUILD)/repro
	$(Q)BUILD=$(abspath $(BUILD)) JOBS=$(JOBS) tests/run.sh --lint $(T)
format:
	$(Q)git clang-format --force --extensions c,h
# Dictionaries: names that a fuzzer would not find by itself.
fuzz_words_capture := src/capture/fields.def
fuzz_words_document := tests/fuzz/document.dict
fuzz_words_import := src/compare/result.def
fuzz_words_policy := src/verify/policy/policy.def src/verify/checks.def
fuzz_words_recipe := src/recipe/keys.def
fuzz_words_rows := src/compare/result.def
$(BUILD)/corpus/%.dict: FORCE
	$(Q)mkdir -p $(@D)
	$(Q)sed -n '/^"/p; s/^[A-Z]*("*\([a-z][^",) ]*\).*/"\1"/p' /dev/null $(fuzz_words_$*) >$@
fuzz:
	$(Q)env/setup.sh lint
	$(again) $(BUILD)/fuzz/tests/fuzz/fuzz_$(FUZZ) $(BUILD)/corpus/$(FUZZ).dict
	$(Q)mkdir -p $(BUILD)/corpus/$(FUZZ)
	$(BUILD)/fuzz/tests/fuzz/fuzz_$(FUZZ) $(if $(fuzz_words_$(FUZZ)),-dict=$(BUILD)/corpus/$(FUZZ).dict) -max_total_time=$(or $(SECONDS),60) \
		$(BUILD)/corpus/$(FUZZ) tests/fuzz/corpus/$(FUZZ)
fuzz-all:
	$(Q)env/setup.sh lint
	$(again) $(patsubst %.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c)) \
		$(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/corpus/%.dict,$(wildcard tests/fuzz/fuzz_*.c))
	$(Q)tests/fuzz/all.sh $(BUILD) $(or $(SECONDS),610) $(FUZZ)
image:
	$(Q)env/image.sh '$(VERSION)' '$(BASE)'
clean:
	$(Q)cd $(BUILD) 2>/dev/null && find . -mindepth 1 -maxdepth 1 ! -name deps ! -name peers -exec rm -rf {} + || :
distclean:
	$(Q)rm -rf $(BUILD)
help:
	@echo 'make             build the static program: $(BUILD)/repro'
	@echo 'make run         set up, build, capture, train BERT-base from recipes/bert_fp32, verify the bundle'
	@echo 'make ARCH=aarch64   the static program for 64-bit Arm: $(top)/aarch64/repro; with check, also tried in an emulator'
	@echo 'make check       the quick tests: unit tests and lint but the longest, a core of the CLI tests'
	@echo 'make test        set up, build and run every test (T=PATTERN: some of them); BUILD/test/times has the seconds of each'
	@echo 'make coverage    the lines of src/ that neither unit tests nor a core of the CLI tests reach, by file (RANGES=1: which; T=PATTERN)'
	@echo '                 FUZZ="NAME...": in their place, the lines that the inputs of these fuzz targets do not reach'
	@echo 'make lint        run every linter; make format: clang-format on uncommitted lines'
	@echo 'make bench       compare speed with PyTorch, MKL and OpenBLAS'
	@echo 'make oracle      compute the PyTorch vectors again and compare'
	@echo 'make fuzz        FUZZ=NAME [SECONDS=60]: one fuzz target'
	@echo 'make fuzz-all    every fuzz target for 610 CPU seconds each, as a table (FUZZ="NAME...": some of them)'
	@echo 'make ptx-check   execute the compiled PTX of every architecture on the CPU, and report what was executed'
	@echo 'make sass-check  execute the machine code of every architecture from sm_75 on on the CPU, and report what was executed'
	@echo 'make gpu-check   on a machine with an NVIDIA GPU: all checks that need one, in half an hour at most'
	@echo 'make gpu-pack    gpu-check in one file for a machine without a checkout: BUILD/gpu-check.tar.gz'
	@echo 'make compile_commands.json   how every file is compiled, for editors and clang tools'
	@echo 'make image       container images, with docker or buildah (BASE=IMAGE; PLATFORMS=linux/amd64,linux/arm64)'
	@echo 'make install     PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make dist        files of a release in $(BUILD)/dist: program, completions, man page, checksums, SBOM, provenance; signed with REPRO_KEY'
	@echo 'make clean       remove build outputs except dependencies; make distclean: everything'
	@echo
	@sed -n '/^# Variables/,/^VERSION/s/^# \{0,1\}//p' Makefile
