# repro-gpu, the GPU worker: a program of its own, linked with glibc, that loads NVIDIA's libraries. It travels in the
# static program. The Makefile includes this file with CUDA=1.
#   BUILD/gpu/repro-gpu, .zst   the program
#   BUILD/gpu/include           CUDA's and NVML's headers (a link)
#   BUILD/gpu/device/ARCH/NAME  src/backend/cuda/NAME.cu compiled for one architecture; .txt: what ptxas said, .zst:
#                               packed
#   BUILD/gpu/gen/images.c, .S  the table of all of them
#   BUILD/gpu/about.txt         for the build record: CUDA's version, digest and size of the program
#   BUILD/gpu/images.txt        and the compiler, digests and sizes of the device code
gpu := $(BUILD)/gpu
# What it asks, and what it trains with: the same model, data and loop as repro, over another backend. Of these folders
# the linker takes what the program calls; of the others they are named.
gpu_sources := $(sort $(wildcard $(patsubst %,src/%/*.c,gpu backend/cuda backend base process recipe ops comm model \
	model/nn optim train worker data/image))) src/capture/put.c src/capture/value.c src/backend/cpu/pool.c src/backend/cpu/limits.c \
	$(filter-out $(addprefix src/data/,archive%.c embedded_data.c marker.c names.c prepare.c store.c),$(sort $(wildcard src/data/*.c))) # readers alone
gpu_line := $(CC) $(common) -O2 $(harden) -ffunction-sections -fdata-sections -ffile-prefix-map=$(sysroot)=/sysroot \
	-DRP_GPU_WORKER -isystem $(gpu)/include -isystem $(sysroot)/src/jansson -isystem $(gpu)/linked
# Of these, what is compiled for sm_90a alone, whose image is loaded besides that of sm_90.
more_code := src/backend/cuda/gemm16_wgmma.cu
device_code := $(filter-out $(more_code),$(sort $(wildcard src/backend/cuda/*.cu)))
code_for = $(if $(filter %a,$1),$(more_code),$(device_code))
# Machine code also runs on later minor versions of its architecture; the PTX serves what has none: 11.0, and all after
# 12. With processors of Arm: Orin is 8.7, whose code no other GPU runs, GH200 9.0, GB200 10.0, GB300 10.3, GB10 12.1;
# Thor is 11.0 since CUDA 13, where NVRTC 12 knows it as 10.1: PTX. Cards beside Graviton, Altra and Grace are T4G, A100
# with A10 and A40, and L4. An architecture takes 0.9 to 1.2 MB of the program, which has 20.7 of 24 MB with them.
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
	$(Q)printf '%s\n' '$(gpu_line)' '$(cuda)' "`$(CC) --version | sed 1q`" | $(call if_changed,$@)
$(gpu)/files: FORCE | $(gpu)/flags
	$(Q)printf '%s\n' $(gpu_sources) | $(call if_changed,$@)
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

gpu_objects := $(patsubst %.c,$(gpu)/%.o,$(gpu_sources)) $(gpu)/gen/images.o $(gpu)/gen/images_bytes.o
$(gpu)/repro-gpu: $(gpu_objects) $(gpu)/libjansson.a env/link-gpu.sh env/gpu/start.S env/gpu/init.c $(gpu)/files \
	$(cuda_ready)
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
