# Tests of the GPU worker without a GPU: libraries that play NVIDIA's, among them a libcuda.so.1 that executes the
# device code, its PTX or its machine code on the CPU. The Makefile includes this file with CUDA=1, after gpu.mk.
#   BUILD/fake                  libnvidia-ml.so.1 and libnccl.so.2
#   BUILD/shim                  each libcuda.so.1
#   BUILD/sass                  machine code and its text

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

# A libcuda.so.1 for tests that executes the device code on the CPU: as sm_80 and later, as older GPUs, and with LONG=1
# each with every access to memory checked (tests/shim/check.c): tests/sass and tests/ptx check those of the compiled
# code. Alignment is checked where nothing else does: the code of sm_80 is compiled, executed and checked so, and is four
# times as long to compile with these checks.
shim_line := $(CC) $(common) -O1 -g1 -fPIC -fvisibility=hidden -mavx2 -mfma -DRP_SHIM -isystem $(gpu)/include
shim_align := -fsanitize=alignment -fsanitize-undefined-trap-on-error
shim_checked := -DSHIM_CHECKED
shim_watch := $(shim_align) -fsanitize=thread --param tsan-instrument-func-entry-exit=0
define shim
shim_$1_objects := $(patsubst %.cu,$(BUILD)/shim/$6/%.o,$5) \
	$(patsubst %,$(BUILD)/shim/$1/%.o,$(basename $(filter-out $5,$(device_code)) \
	$(filter-out $(if $3,,%/check.c),$(wildcard tests/shim/*.c $(if $3,tests/shim/*.cu)))))
$(BUILD)/shim/$1/%.o: shim_line += -D__CUDA_ARCH__=$2 $3
$(BUILD)/shim/$1/tests/shim/shim.o $(BUILD)/shim/$1/tests/shim/check.o: private shim_line += -O3
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
# The same code for all GPUs: tests/build/device_code.sh compares its PTX.
shim_alike := $(filter-out $(addprefix src/backend/cuda/,attention% conv% gemm%),$(device_code))
shims := $(patsubst %,$(BUILD)/shim/%/libcuda.so.1,800 700 $(if $(filter-out 0,$(LONG)),checked checked700))
$(eval $(call shim,800,800))
$(eval $(call shim,700,700,,$(shim_align),$(shim_alike),800))
$(eval $(call shim,checked,800,$(shim_checked),$(shim_watch)))
$(eval $(call shim,checked700,700,$(shim_checked),$(shim_watch)))

# A libcuda.so.1 for tests that executes the compiled PTX (tests/ptx), and PTX for it besides what ships.
ptx_line := $(CC) $(common) -O3 -g -fPIC -fvisibility=hidden -mavx2 -mfma -fno-math-errno -fno-trapping-math -DRP_SHIM \
	-isystem $(gpu)/include
ptx_objects := $(patsubst %.c,$(BUILD)/shim/ptx/%.o,$(wildcard tests/ptx/*.c tests/simt/*.c) \
	$(addprefix tests/shim/,driver.c launch.c memory.c order.c stream.c))
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

# One that executes machine code (tests/sass), and nvdisasm's text of that code; without the disassembler, there is no
# text. BUILD/sass/ARCH/NAME is a link to the cubin, NAME.sass the text.
sass_objects := $(patsubst %.c,$(BUILD)/shim/sass/%.o,$(wildcard tests/sass/*.c tests/simt/*.c) \
	$(addprefix tests/shim/,driver.c launch.c memory.c order.c stream.c))
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
gpu_tested := $(addprefix $(BUILD)/asan/src/gpu/,library.o nvml.o nvml_links.o nvml_probe.o nvml_table.o sampler.o)
$(gpu_tested): private asan_line += -isystem $(gpu)/include
$(gpu_tested): | $(gpu)/include
$(BUILD)/asan/tests/unit/test_gpu_nvml $(BUILD)/asan/tests/unit/test_gpu_telemetry: $(gpu_tested)
