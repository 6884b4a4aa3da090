/* Which instructions were executed: PTX_COVERAGE or SASS_COVERAGE=DIRECTORY gets a file of each process, one line a
 * kernel: "80 rp_add HASH 0110...", with the hash of its text and a 1 for each instruction that a warp executed. The
 * file is mapped, because processes that use a GPU are killed in the end. */
#include "tests/simt/simt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM ((size_t)1 << 22) /* sparse */

char *simt_hits(const struct simt_kernel *k, int target)
{
    static char *begin, *end;
    const char *directory = simt_setting("COVERAGE");
    char path[4096];
    if (directory && !begin) {
        snprintf(path, sizeof path, "%s/%d", directory, (int)getpid());
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
        begin = fd < 0 || ftruncate(fd, (off_t)ROOM) < 0 ? MAP_FAILED
                                                         : mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (begin == MAP_FAILED)
            simt_refuse("cannot write '%s'", path);
        end = begin;
        close(fd);
    }
    if (!directory)
        return memset(simt_grow(NULL, k->n), '0', k->n);
    if ((size_t)(end - begin) + k->n + 128 > ROOM)
        simt_refuse("no room for the coverage of '%s'", k->name);
    end += sprintf(end, "%d %s %016llx ", target, k->name, (unsigned long long)k->text);
    /* the last instruction is not in the text; its mark becomes the end of the line */
    char *hits = memset(end, '0', k->n - 1);
    end += k->n - 1;
    *end++ = '\n';
    return hits;
}
