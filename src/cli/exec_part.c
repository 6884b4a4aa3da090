/* What a process of a command adds to its bundle. */
#include "cli/exec.h"

#include "base/hash.h"

void rp_exec_part_fini(struct exec_part *p)
{
    rp_object_fini(&p->end, &rp_type_exec_ended);
    rp_object_fini(&p->rest, &rp_type_exec_finished);
    for (int i = 0; i < EXEC_TEXTS; i++)
        rp_buf_fini(&p->text[i]);
}

int rp_exec_digest_file(struct rp_named_file *f, const char *path, struct rp_err *err)
{
    uint64_t size;
    if (rp_sha256_file(f->sha256, path, &size, err) < 0)
        return -1;
    f->bytes = (int64_t)size;
    return 0;
}
