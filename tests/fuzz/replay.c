/* Replays a corpus through a fuzz target, so that the targets run in the normal tests: arguments are files or
 * directories. `make fuzz FUZZ=name` links libFuzzer in place of this file. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const int fuzz_is_slow __attribute__((weak)); /* a target with this name has its inputs replayed whole only */

static int replay_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1); /* exactly as long as the file, so that reading past its end is seen */
    if (!f || !data || fread(data, 1, size, f) != size) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(2);
    }
    fclose(f);
    fprintf(stderr, "%s\n", path); /* the last line of the log names the input that crashed */
    LLVMFuzzerTestOneInput(data, size);
    for (size_t cut = 0; !&fuzz_is_slow && size < 4096 && cut < size; cut += 1 + size / 64) { /* and cut off anywhere */
        uint8_t *part = malloc(cut ? cut : 1);
        if (!part)
            abort();
        memcpy(part, data, cut);
        LLVMFuzzerTestOneInput(part, cut);
        free(part);
    }
    free(data);
    return 1;
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "replay: no %s\n", path);
        exit(2);
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t)st.st_size);
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort), done = 0;
    for (int i = 0; i < count; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            done += replay(inner);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return done;
}

int main(int argc, char **argv)
{
    int done = 0;
    for (int i = 1; i < argc; i++)
        done += replay(argv[i]);
    printf("%d inputs\n", done);
    return done ? 0 : 1; /* an empty corpus tests nothing */
}
