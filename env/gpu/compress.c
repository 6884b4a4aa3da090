/* compress IN OUT: IN as one zstd frame with size and checksum. By the zstd of the sysroot, so that the bytes do not depend on the machine. */
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

static int fail(const char *what)
{
    fprintf(stderr, "compress: %s\n", what);
    return 1;
}

int main(int argc, char **argv)
{
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL;
    if (!in || fseek(in, 0, SEEK_END) != 0)
        return fail("cannot open the input");
    size_t size = (size_t)ftell(in), room = ZSTD_compressBound(size);
    char *plain = malloc(size), *packed = malloc(room);
    rewind(in);
    if (!plain || !packed || fread(plain, 1, size, in) != size)
        return fail("cannot read the input");
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, 19);
    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    size_t n = ZSTD_compress2(c, packed, room, plain, size);
    if (ZSTD_isError(n))
        return fail(ZSTD_getErrorName(n));
    FILE *out = fopen(argv[2], "wb");
    return out && fwrite(packed, 1, n, out) == n && fclose(out) == 0 ? 0 : fail("cannot write the output");
}
