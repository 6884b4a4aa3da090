/* What the interpreter of tests/ptx refuses: PTX that it does not know, and kernels whose results on a GPU are
 * undefined. Each fault has a twin that runs.
 * shims: ptx */
#include "tests/unit/tap.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define OUT_BYTES 248

/* A kernel of two blocks of 64 threads: %rd1 is `out`, 248 bytes of zeros; %r1 the thread, %r2 the lane, %r3 the block;
 * %p1: the first thread of its block; %p2: the first block; %p3: the lower half of a warp; %r4 is 0 and %r5 the
 * thread's word of `buffer`. */
#define BEGIN                                                                                                          \
    "//\n.version 8.8\n.target sm_80\n.address_size 64\n.const .align 4 .b8 table[16] = {1, 2, 3, 4};\n"               \
    ".visible .entry rp_case(.param .align 8 .b8 rp_case_param_0[16])\n"
#define HEAD                                                                                                           \
    ".maxntid 64, 1, 1\n{\n.reg .pred %p<9>;\n.reg .b16 %rs<4>;\n.reg .b32 %r<19>;\n.reg .f32 %f<9>;\n.reg .b64 "      \
    "%rd<9>;\n"                                                                                                        \
    ".local .align 16 .b8 depot[16];\n.shared .align 16 .b8 buffer[256];\n"                                            \
    "ld.param.u64 %rd1, [rp_case_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %laneid;\nmov.u32 %r3, "                \
    "%ctaid.x;\nmov.u32 %r4, 0;\n"                                                                                     \
    "setp.eq.s32 %p1, %r1, 0;\nsetp.eq.s32 %p2, %r3, 0;\nsetp.lt.s32 %p3, %r2, 16;\nmov.u32 %r5, buffer;\nmad.lo.s32 " \
    "%r5, %r1, 4, %r5;\n"
#define END "\nret;\n}\n"
#define ON_90(text)                                                                                                    \
    "//\n.version 8.8\n.target sm_90\n.address_size 64\n.visible .entry rp_case(.param .align 8 .b8 "                  \
    "rp_case_param_0[16])\n" HEAD text END

struct kernel_case {
    const char *name, *text, *reported; /* "": it runs */
};

static void *library;
#define NAME_OF(function) #function
#define NAME(function) NAME_OF(function)
#define CALL(function, ...)                                                                                            \
    do {                                                                                                               \
        __typeof__(&function) call_;                                                                                   \
        *(void **)&call_ = dlsym(library, NAME(function));                                                             \
        if (!call_ || call_(__VA_ARGS__) != CUDA_SUCCESS)                                                              \
            _exit(call_ ? 1 : 2);                                                                                      \
    } while (0)

/* In a process of its own, because what is refused ends it: 0, or 1 where the driver reports an error, 70 where the
 * text is refused. */
static void launch(const char *text)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr out;
    CUdevice device;
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemAlloc, &out, OUT_BYTES);
    CALL(cuMemsetD8Async, out, 0, OUT_BYTES, NULL);
    CALL(cuModuleLoadData, &module, text);
    CALL(cuModuleGetFunction, &function, module, "rp_case");
    void *parameters[] = {(CUdeviceptr[]){out, 0}};
    CALL(cuLaunchKernel, function, 2, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL);
    _exit(0);
}

/* What the interpreter reports, and the status of the process. */
static int report(const char *text, char *reported, size_t size)
{
    int of[2], status = -1;
    size_t n = 0;
    if (!CHECK(pipe(of) == 0))
        return status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(of[1], 2);
        launch(text);
    }
    close(of[1]);
    for (ssize_t got; n < size - 1 && (got = read(of[0], reported + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    reported[n] = '\0';
    close(of[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void run_cases(const struct kernel_case *cases, int n, int refused_with)
{
    const char *path = getenv("RP_SHIM_LIBRARY");
    library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!CHECK(library, "%s", dlerror()))
        return;
    setenv("PTX_RACES", "1", 1);
    unsetenv("PTX_DIR");
    for (int i = 0; i < n; i++) {
        char text[4096], reported[2048];
        int has_head = strncmp(cases[i].text, "//", 2) == 0;
        snprintf(text, sizeof text, "%s%s%s", has_head ? "" : BEGIN HEAD, cases[i].text, has_head ? "" : END);
        int status = report(text, reported, sizeof reported), runs = !*cases[i].reported;
        CHECK(status == (runs ? 0 : refused_with), "%s: status %d, '%s'", cases[i].name, status, reported);
        CHECK(runs ? !*reported : strstr(reported, cases[i].reported) != NULL, "%s: '%s'", cases[i].name, reported);
    }
}

TEST(unknown_ptx_is_refused)
{
    static const struct kernel_case cases[] = {
        {"instruction", "sin.approx.f32 %f1, %f2;", "unknown instruction 'sin.approx.f32'"},
        {"name that begins like one", "retire;", "unknown instruction 'retire'"},
        {"rounding that allows contraction", "add.f32 %f1, %f2, %f3;", "unknown instruction 'add.f32'"},
        {"modifier of a row", "add.rn.ftz.f32 %f1, %f2, %f3;", "unknown instruction 'add.rn.ftz.f32'"},
        {"modifier at the end", "ret.sometimes;", "unknown modifier '.sometimes' of 'ret.sometimes'"},
        {"modifier of a load", "ld.global.L1::no_allocate.u32 %r6, [%rd1];",
         "a type is expected instead of '.L1::no_allocate.u32'"},
        {"scope", "st.release.sys.global.u32 [%rd1], %r6;", "a type is expected instead of '.release.sys.global.u32'"},
        {"type", "mov.f16 %rs1, %rs2;", "a type is expected instead of '.f16'"},
        {"atomic in shared memory", "atom.shared.add.u32 %r6, [buffer], 1;",
         "'.global' is expected instead of '.shared.add.u32'"},
        {"bulk copy", "cp.async.bulk.commit_group;", "copies of tensors before sm_90"},
        {"size of a copy", "cp.async.cg.shared.global [buffer], [%rd1], 8;", "a copy of another size"},
        {"number of groups in a register", "cp.async.wait_group %r1;", "a number of groups that is not constant"},
        {"barrier", "bar.sync 1;", "a barrier other than 0"},
        {"sums in fp16",
         "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r6, %r7}, {%r6, %r7, %r8, %r9}, {%r6, %r7}, {%r6, %r7};",
         "'.f32' is expected"},
        {"product of another family",
         "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, {%r6, %r7}, "
         "{%r6, %r7}, {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8};",
         "are not one instruction of sm_80"},
        {"registers of a product",
         "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r6, %r7}, {%r6, %r7}, "
         "{%f1, %f2, %f3, %f4};",
         "4 registers of a matrix are expected"},
        {"wgmma on another architecture", "wgmma.fence.sync.aligned;", "wgmma is an instruction of sm_90a alone"},
        {"mbarrier before sm_90", "mbarrier.init.shared::cta.b64 [buffer], 1;", "mbarriers before sm_90"},
        {"state of an mbarrier", ON_90("mbarrier.arrive.shared::cta.b64 %rd2, [buffer];"),
         "the state of a barrier in a register"},
        {"test of an mbarrier", ON_90("mbarrier.test_wait.parity.shared::cta.b64 %p4, [buffer], 0;"),
         "'.try_wait' is expected"},
        {"line of a tensor",
         ON_90("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd1, {%r4}], "
               "[%r5];"),
         "'.2d' is expected"},
        {"fence of proxies before sm_90", "fence.proxy.async.shared::cta;", "a fence of another kind"},
        {"matrices in global memory", "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r6}, [%rd1];",
         "'.shared' is expected"},
        {"number of operands", "add.s32 %r6, %r7;", "3 operands are expected, not 2"},
        {"size of a register", "add.s32 %r6, %rd1, %r7;", "operand '%rd1' has another kind or size than expected"},
        {"elements", "ld.global.v2.u32 %r6, [%rd1];", "2 elements are expected"},
        {"predicate", "@%r1 ret;", "'%r1' is expected to be a predicate"},
        {"register", "mov.u32 %r19, 0;", "'%r19' is not declared"},
        {"symbol", "ld.shared.u32 %r6, [elsewhere];", "'elsewhere' is not declared"},
        {"label", "bra NOWHERE;", "there is no label 'NOWHERE'"},
        {"store to parameters", "st.param.u32 [rp_case_param_0], %r1;", "a store to memory that only can be read"},
        {"parameters at once", "ld.param.v2.u64 {%rd2, %rd3}, [rp_case_param_0];",
         "16 bytes at once of parameters that are aligned to 8"},
        {"directive in a kernel", ".branchtargets A, B;", "unknown directive '.branchtargets'"},
        {"directive of a kernel", BEGIN ".maxnreg 32\n" HEAD END, "unknown directive '.maxnreg' of a kernel"},
        {"directive of a module", "//\n.weak .func f();\n", "unknown directive '.weak'"},
        {"launch bounds", BEGIN "{\nret;\n}\n", "kernel 'rp_case' has no launch bounds"},
        {"end", BEGIN HEAD "ret;\n", "kernel 'rp_case' has no end"},
        {"second kernel of a name", BEGIN HEAD END BEGIN HEAD END, "kernel 'rp_case' is there already"},
    };
    run_cases(cases, COUNT(cases), 70);
}

TEST(accesses_to_other_memory_are_faults)
{
    static const struct kernel_case cases[] = {
        {"aligned", "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+224];", ""},
        {"unaligned vector", "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+4];", "which is not aligned"},
        {"unaligned word", "st.global.u32 [%rd1+2], %r1;", "which is not aligned"},
        {"unaligned vector of shared memory", "ld.shared.v2.f32 {%f1, %f2}, [buffer+4];",
         "of shared memory, which is not aligned"},
        {"matrix", "mov.u32 %r6, buffer;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6];", ""},
        {"unaligned row of a matrix", "mov.u32 %r6, buffer;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6+8];",
         "of shared memory, which is not aligned"},
        {"row after shared memory", "mov.u32 %r6, buffer;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6+256];",
         "of shared memory of 256"},
        {"unaligned copy", "cp.async.cg.shared.global [buffer], [%rd1+8], 16;", "which is not aligned"},
        {"after the block of memory", "ld.global.u32 %r6, [%rd1+248];", "reads 4 bytes at "},
        {"before the block of memory", "st.global.u32 [%rd1+-4], %r6;", "outside of all memory of the GPU"},
        {"across its end", "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+240];", "outside of all memory of the GPU"},
        {"copy from there", "cp.async.ca.shared.global [buffer], [%rd1+256], 4;", "copies from 4 bytes at"},
        {"copy of nothing from there", "cp.async.ca.shared.global [%r5], [%rd1+256], 4, %r4;", ""},
        {"shared memory", "st.shared.u32 [buffer+256], %r1;", "writes 4 bytes at 256 of shared memory of 256"},
        {"local memory", "st.local.u32 [depot+12], %r1;", ""},
        {"local memory after its end", "st.local.u32 [depot+16], %r1;",
         "writes 4 bytes at 0x10 of local memory of 16 bytes"},
        {"parameters", "ld.param.u32 %r6, [rp_case_param_0+16];", "of parameters of 16 bytes"},
        {"constants", "ld.const.u32 %r6, [table+12];", ""},
        {"constants after their end", "ld.const.u32 %r6, [table+16];", "of constants of 16 bytes"},
        {"generic addresses",
         "cvta.shared.u64 %rd2, buffer;\nadd.s64 %rd3, %rd2, 8;\n@%p1 st.u32 [%rd3], 7;\n@!%p1 bra ON;\nld.shared.u32 "
         "%r6, [buffer+8];\n"
         "setp.ne.s32 %p4, %r6, 7;\n@%p4 trap;\nON:",
         ""},
        {"address of shared memory as one of global memory", "mov.u64 %rd2, buffer;\nst.global.u32 [%rd2], %r1;",
         "outside of all memory of the GPU"},
        {"generic address of shared memory as one of global memory",
         "cvta.shared.u64 %rd2, buffer;\nld.global.u32 %r6, [%rd2];", "outside of all memory"},
        {"address of global memory as one of shared memory", "cvta.to.shared.u64 %rd2, %rd1;",
         "is not an address of that space"},
        {"address of no space", "mov.u64 %rd2, 0x7000000000000000;\nld.u32 %r6, [%rd2];", "an address of no space"},
        {"store to constants", "mov.u64 %rd2, table;\nst.u32 [%rd2], %r1;", "writes memory that only can be read"},
        {"division by zero", "div.u32 %r6, %r1, %r4;", "divides by zero"},
        {"trap", "@%p1 trap;", "block 0 0 0, thread 0: the kernel ended itself: module:26: @%p1 trap;"},
    };
    run_cases(cases, COUNT(cases), 1);
}

#define SHUFFLE "shfl.sync.idx.b32 %r6, %r1, "
#define EITHER(lower, upper) "@%p3 bra LOWER;\n" upper "\nbra ON;\nLOWER:\n" lower "\nON:"

TEST(threads_that_do_not_meet_are_faults)
{
    static const struct kernel_case cases[] = {
        {"shuffle",
         SHUFFLE "20, 31, -1;\nand.b32 %r7, %r1, 32;\nadd.s32 %r7, %r7, 20;\nsetp.ne.s32 %p4, %r6, %r7;\n@%p4 trap;",
         ""},
        {"shuffle of a half", EITHER(SHUFFLE "3, 31, 0xffff;", SHUFFLE "20, 31, 0xffff0000;"), ""},
        {"shuffle of an absent lane", EITHER(SHUFFLE "20, 31, 0xffff;", ""),
         "takes the value of lane 20, which is not here"},
        {"shuffle that names others", "@%p3 " SHUFFLE "3, 31, 0xffff0000;", "does not name itself"},
        {"shuffle with two masks", "selp.b32 %r7, -1, -2, %p3;\n" SHUFFLE "3, 31, %r7;", "name different lanes"},
        {"lanes at two shuffles", EITHER(SHUFFLE "3, 31, -1;", SHUFFLE "3, 31, -1;"), "waits for lanes"},
        {"lanes that returned", "@%p3 ret;\n" SHUFFLE "20, 31, -1;", ""},
        {"vote of a half", EITHER("vote.sync.ballot.b32 %r6, %p3, -1;", "bar.warp.sync -1;"), "waits for lanes"},
        {"barrier", "bar.sync 0;", ""},
        {"half a warp at a barrier", EITHER("bar.sync 0;", "bar.sync 0;"), "waits for lanes"},
        {"warps at two barriers", "setp.lt.s32 %p4, %r1, 32;\n@%p4 bra FIRST;\nbar.sync 0;\nret;\nFIRST:\nbar.sync 0;",
         "waits at another barrier"},
        {"barrier without a warp", "setp.lt.s32 %p4, %r1, 32;\n@%p4 ret;\nbar.sync 0;",
         "threads of warp 0 returned while others wait at a barrier"},
        {"barrier without a lane", "@%p1 ret;\nbar.sync 0;",
         "threads of warp 0 returned while others wait at a barrier"},
        {"flag that nobody sets",
         "SPIN:\nld.acquire.gpu.global.u32 %r6, [%rd1];\nsetp.eq.s32 %p4, %r6, 0;\n@%p4 bra SPIN;",
         "every resident block waits for another one"},
    };
    run_cases(cases, COUNT(cases), 1);
}

#define COPY "cp.async.ca.shared.global [%r5], [%rd1], 4;\ncp.async.commit_group;\n"
#define IS_ZERO(address) "ld.shared.u32 %r6, [" address "];\nsetp.ne.s32 %p4, %r6, 0;\n@%p4 trap;\n"
/* The first block sets word 0 of `out`, then a flag; the second one waits for the flag and reads the word. before,
 * after: of the wait. */
#define FLAG_WITH(store, before, load, after)                                                                          \
    "@!%p2 bra SECOND;\n@%p1 st.global.u32 [%rd1], 1;\nbar.sync 0;\n@%p1 " store                                       \
    " [%rd1+4], 1;\nret;\nSECOND:\n@!%p1 bra MET;\n" before "SPIN:\n" load                                             \
    " %r6, [%rd1+4];\nsetp.eq.s32 %p4, %r6, 0;\n@%p4 nanosleep.u32 %r6;\n@%p4 bra SPIN;\n" after                       \
    "MET:\nbar.sync 0;\nld.global.u32 %r6, [%rd1];"
#define FLAG(store, load) FLAG_WITH(store, "", load, "")
#define FENCE "fence.acq_rel.gpu;\n"

/* %rd2: word 0 of `out` in the first block, word 1 in the second. */
#define OWN_WORD "mul.wide.u32 %rd2, %r3, 4;\nadd.s64 %rd2, %rd1, %rd2;\n"

TEST(accesses_that_nothing_orders_are_faults)
{
    static const struct kernel_case cases[] = {
        {"uninitialised memory", "ld.shared.f32 %f1, [%r5];\nsetp.num.f32 %p4, %f1, %f1;\n@%p4 trap;", ""},
        {"copy that is waited for", COPY "cp.async.wait_group 0;\n" IS_ZERO("%r5"), ""},
        {"copy that is not waited for", COPY IS_ZERO("%r5"), "the kernel ended itself"},
        {"wait for older groups alone", COPY "cp.async.wait_group 1;\n" IS_ZERO("%r5"), "the kernel ended itself"},
        {"copy of another thread", COPY "cp.async.wait_group 0;\nbar.sync 0;\n" IS_ZERO("buffer"), ""},
        {"copy of another thread without a barrier", COPY "cp.async.wait_group 0;\n" IS_ZERO("buffer"),
         "which another thread writes, and nothing orders them"},
        {"copy that lands after the barrier", COPY "bar.sync 0;\ncp.async.wait_group 0;\n" IS_ZERO("buffer"),
         "nothing orders them"},
        {"word of shared memory", "@%p1 st.shared.u32 [buffer], 0;\nbar.sync 0;\n" IS_ZERO("buffer"), ""},
        {"word of shared memory without a barrier", "@%p1 st.shared.u32 [buffer], 0;\n" IS_ZERO("buffer"),
         "which another thread writes, and nothing orders them"},
        {"write after reads", "ld.shared.u32 %r6, [buffer];\n@%p1 st.shared.u32 [buffer], 0;",
         "which another thread reads, and nothing orders them"},
        {"barrier of a warp between two warps",
         "@%p1 st.shared.u32 [buffer], 0;\nbar.warp.sync -1;\n" IS_ZERO("buffer"), "nothing orders them"},
        {"atomic additions", "red.global.add.u32 [%rd1], 1;", ""},
        {"store where others add", "red.global.add.u32 [%rd1], 1;\nbar.sync 0;\n@%p1 st.global.u32 [%rd1], 0;",
         "which another thread changes atomically, and nothing orders them"},
        {"additions, a store and reads with barriers between, of a word for each block",
         OWN_WORD "red.global.add.u32 [%rd2], 1;\nbar.sync 0;\n@%p1 st.global.u32 [%rd2], 0;\nbar.sync "
                  "0;\nld.global.u32 %r6, [%rd2];\n"
                  "bar.sync 0;\nred.global.add.u32 [%rd2], 1;",
         ""},
        {"store after the own addition, without a barrier",
         OWN_WORD "red.global.add.u32 [%rd2], 1;\n@%p1 st.global.u32 [%rd2], 0;",
         "which another thread changes atomically, and nothing orders them"},
        {"read where others add", "red.global.add.u32 [%rd1], 1;\nbar.sync 0;\nld.global.u32 %r6, [%rd1];",
         "which another thread changes atomically, and nothing orders them"},
        {"addition where others store",
         "@!%p2 bra ADD;\n@%p1 st.global.u32 [%rd1], 0;\nret;\nADD:\nred.global.add.u32 [%rd1], 1;",
         "which another thread writes, and nothing orders them (block 0 of the grid)"},
        {"addition where others read",
         "@!%p2 bra ADD;\nld.global.u32 %r6, [%rd1];\nret;\nADD:\nred.global.add.u32 [%rd1], 1;",
         "which another thread reads, and nothing orders them (block 0 of the grid)"},
        {"store of the block that added last",
         "red.global.add.u32 [%rd1], 1;\nbar.sync 0;\n@%p2 ret;\n@%p1 st.global.u32 [%rd1], 0;",
         "which another thread changes atomically, and nothing orders them (block 0 of the grid)"},
        {"stores of two blocks", "@%p1 st.global.u32 [%rd1], 0;",
         "which another thread writes, and nothing orders them (block 0 of the grid)"},
        {"release and acquire", FLAG("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"), ""},
        {"release alone", FLAG("st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32"),
         "which another thread writes, and nothing orders them"},
        {"acquire alone", FLAG("st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32"),
         "which another thread writes, and nothing orders them"},
        {"release, relaxed load and fence",
         FLAG_WITH("st.release.gpu.global.u32", "", "ld.relaxed.gpu.global.u32", FENCE), ""},
        {"fence before the load that returns the flag",
         FLAG_WITH("st.release.gpu.global.u32", FENCE, "ld.relaxed.gpu.global.u32", ""),
         "which another thread writes, and nothing orders them"},
        {"relaxed store, relaxed load and fence",
         FLAG_WITH("st.relaxed.gpu.global.u32", "", "ld.relaxed.gpu.global.u32", FENCE),
         "which another thread writes, and nothing orders them"},
        {"fence of another thread than the one that waited",
         "@!%p2 bra SECOND;\n@%p1 st.global.u32 [%rd1], 1;\nbar.sync 0;\n"
         "@%p1 st.release.gpu.global.u32 [%rd1+4], 1;\nret;\nSECOND:\n@!%p1 bra OTHER;\nSPIN:\n"
         "ld.relaxed.gpu.global.u32 %r6, [%rd1+4];\nsetp.eq.s32 %p4, %r6, 0;\n@%p4 bra SPIN;\nbra MET;\n"
         "OTHER:\n" FENCE "MET:\nbar.sync 0;\nld.global.u32 %r6, [%rd1];",
         "which another thread writes, and nothing orders them"},
        {"plain load and fence", FLAG_WITH("st.release.gpu.global.u32", "", "ld.global.u32", FENCE),
         "and nothing orders them"},
        {"cached read of what is written", "ld.global.nc.u32 %r6, [%rd1];\n@%p1 st.global.u32 [%rd1], 0;",
         "through ld.global.nc"},
    };
    run_cases(cases, COUNT(cases), 1);
}

/* An mbarrier that counts so many arrivals, initialised by the first thread; a wait for its phase of that parity. */
#define INIT(arrivals) "@%p1 mbarrier.init.shared::cta.b64 [buffer+248], " arrivals ";\n"
#define ARRIVE "mbarrier.arrive.shared::cta.b64 _, [buffer+248];\n"
#define WAIT(parity)                                                                                                   \
    "AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [buffer+248], " parity ";\n@!%p4 bra AGAIN;\n"
/* A thread's own word, of 48, and that of the thread 16 below. */
#define WRITE "setp.lt.s32 %p5, %r1, 48;\n@%p5 st.shared.u32 [%r5], %r1;\n"
#define READ "setp.gt.s32 %p5, %r1, 15;\n@%p5 ld.shared.u32 %r6, [%r5+-64];\n"

TEST(misused_mbarriers_are_faults)
{
    static const struct kernel_case cases[] = {
        {"phase", ON_90(INIT("64") "bar.sync 0;\n" WRITE ARRIVE WAIT("0") READ), ""},
        {"phase before the first one", ON_90(INIT("64") "bar.sync 0;\n" WAIT("1") ARRIVE), ""},
        {"no object", ON_90("bar.sync 0;\n" ARRIVE), "is not initialised"},
        {"second initialisation", ON_90(INIT("64") INIT("64")), "is initialised a second time"},
        {"initialisation of another thread without a barrier", ON_90(INIT("64") ARRIVE),
         "initialised the barrier at 0x4f8 of shared memory, and nothing"},
        {"object that was overwritten", ON_90(INIT("64") "@%p1 st.shared.u32 [buffer+252], 0;\nbar.sync 0;\n" ARRIVE),
         "was overwritten"},
        {"unaligned object", ON_90("@%p1 mbarrier.init.shared::cta.b64 [buffer+4], 64;\n"), "which is not aligned"},
        {"arrival that is missing", ON_90(INIT("65") "bar.sync 0;\n" ARRIVE WAIT("0")),
         "waits for ever for phase 0 of the barrier at 0x4f8 of shared memory: 1 of 65 arrivals and 0 bytes are "
         "missing"},
        {"bytes that are missing",
         ON_90(INIT("64") "bar.sync 0;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [buffer+248], 16;\n" WAIT("0")),
         "0 of 64 arrivals and 1024 bytes are missing"},
        {"arrival while bytes are missing",
         ON_90(INIT("1") "bar.sync 0;\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [buffer+248], 16;\nbar.sync "
                         "0;\n@%p1 " ARRIVE),
         "more than 1 threads arrive in phase 0"},
        {"phases that a thread has missed", ON_90(INIT("16") "bar.sync 0;\n" ARRIVE WAIT("1")),
         "are complete, and this thread has waited for 0"},
        {"parity", ON_90(INIT("64") "bar.sync 0;\n" WRITE ARRIVE WAIT("1") READ), "and nothing orders them"},
        {"read before the wait", ON_90(INIT("64") "bar.sync 0;\n" WRITE ARRIVE READ WAIT("0")),
         "and nothing orders them"},
        {"arrival before the write", ON_90(INIT("64") "bar.sync 0;\n" ARRIVE WRITE WAIT("0") READ),
         "which another thread writes, and nothing orders them"},
        {"write before readers have arrived", ON_90(INIT("64") "bar.sync 0;\n" READ ARRIVE WRITE WAIT("0")),
         "which another thread reads, and nothing orders"},
        {"arrival of a warp's first lane alone",
         ON_90(INIT("2") "bar.sync 0;\n" WRITE "setp.eq.s32 %p6, %r2, 0;\n@%p6 " ARRIVE WAIT("0") READ),
         "which another thread writes, and nothing orders them"},
        {"tensor map that is no parameter",
         ON_90(INIT("1") "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], "
                         "[%rd1, {%r4, %r4}], [%r5];"),
         "which is no parameter that is aligned to 64 bytes"},
        {"the same after a barrier of the warp",
         ON_90(INIT("2") "bar.sync 0;\n" WRITE "bar.warp.sync -1;\nsetp.eq.s32 %p6, %r2, 0;\n@%p6 " ARRIVE WAIT("0")
                   READ),
         ""},
    };
    run_cases(cases, COUNT(cases), 1);
}
