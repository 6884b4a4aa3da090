/* The build record: what this binary was made from and with.
 *
 * What:    constant texts written by the build (env/gen-build.sh -> build/VARIANT/gen/build.c).
 * Flow:    Makefile, git, compiler, env/deps.lock -> `repro version`, the bundle.
 * Owner:   static, read-only.
 * Extend:  a field here is a line in env/gen-build.sh.
 */
#pragma once

struct rp_build {
    const char *version;  /* "0.1.0" */
    const char *commit;   /* 40 hex digits, or "unknown" */
    const char *dirty;    /* "clean", "dirty" (what is built differs from the commit) or "unknown" */
    const char *compiler; /* one line */
    const char *flags;    /* of every file; instruction-set flags of single files are not repeated */
    /* One line per source file of what is linked in: "NAME VERSION SHA256 FILE"; then, for each package whose pinned
     * version had left the archive, "fell-forward: NAME PINNED -> USED". A native build has "NAME VERSION - system"
     * lines. */
    const char *deps;
    const char *gpu_worker;  /* "CUDA_VERSION SHA256 BYTES" of the repro-gpu inside; "": built without */
    /* in repro-gpu: "NVRTC 12.9.86", then a line "sm_90 SHA256 BYTES" for each architecture; "": built without */
    const char *device_code;
};
const struct rp_build *rp_build_record(void);
