/* nvrtc LIBRARY ARCH SOURCE OUT FLAG...: compile one .cu file with the NVRTC of that path: sm_90 gives a cubin, and in OUT.ptx the PTX that it
 * was made from, which is that of compute_90; compute_100 gives PTX.
 * What the compiler says, ptxas with its statistics included, goes to stdout. A tool of the build. */
#include <dlfcn.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FLAGS 32

static void *library;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "nvrtc: %s: %s\n", what, why);
    exit(1);
}

static void *function(const char *name)
{
    void *f = dlsym(library, name);
    if (!f)
        fail(name, "not in this library");
    return f;
}
#define CALL(f, ...) ((__typeof__(f) *)function(#f))(__VA_ARGS__)

static void must(nvrtcResult r, const char *what)
{
    if (r != NVRTC_SUCCESS)
        fail(what, CALL(nvrtcGetErrorString, r));
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        fail(path, "cannot be opened");
    size_t size = (size_t)ftell(f);
    char *text = calloc(size + 1, 1);
    rewind(f);
    if (!text || fread(text, 1, size, f) != size)
        fail(path, "cannot be read");
    fclose(f);
    return text;
}

static void print_log(nvrtcProgram program)
{
    size_t size = 0;
    must(CALL(nvrtcGetProgramLogSize, program, &size), "the log");
    char *text = calloc(size + 1, 1);
    must(text ? CALL(nvrtcGetProgramLog, program, text) : NVRTC_ERROR_OUT_OF_MEMORY, "the log");
    fputs(text, stdout);
    free(text);
}

static void write_code(nvrtcProgram program, int ptx, const char *path)
{
    size_t size = 0;
    must(ptx ? CALL(nvrtcGetPTXSize, program, &size) : CALL(nvrtcGetCUBINSize, program, &size), "the code's size");
    char *code = malloc(size + 1);
    must(!code ? NVRTC_ERROR_OUT_OF_MEMORY : ptx ? CALL(nvrtcGetPTX, program, code) : CALL(nvrtcGetCUBIN, program, code), "the code");
    size_t n = ptx ? strlen(code) : size; /* the size of PTX counts the zero behind it */
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(code, 1, n, out) != n || fclose(out) != 0)
        fail(path, "cannot be written");
    free(code);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 5 + MOST_FLAGS)
        fail("usage", "nvrtc LIBRARY ARCH SOURCE OUT FLAG...");
    char arch[64];
    const char *flags[1 + MOST_FLAGS] = {arch};
    nvrtcProgram program;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", argv[2]);
    for (int i = 5; i < argc; i++)
        flags[i - 4] = argv[i];
    library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        fail(argv[1], dlerror());
    char *text = read_file(argv[3]);
    must(CALL(nvrtcCreateProgram, &program, text, argv[3], 0, NULL, NULL), argv[3]);
    nvrtcResult r = CALL(nvrtcCompileProgram, program, argc - 4, flags);
    print_log(program);
    must(r, argv[3]);
    const int ptx = strncmp(argv[2], "compute_", 8) == 0;
    write_code(program, ptx, argv[4]);
    if (!ptx) {
        char path[4096];
        snprintf(path, sizeof path, "%s.ptx", argv[4]);
        write_code(program, 1, path);
    }
    must(CALL(nvrtcDestroyProgram, &program), argv[3]);
    free(text);
    return 0;
}
