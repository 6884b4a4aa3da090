# Goals that start a make of their own: they set the machine up, build what they need by $(again), then test, measure or
# remove. The Makefile includes this file, and lists them in NO_BUILD.

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
