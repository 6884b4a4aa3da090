/* Any bytes as a ledger: refused with one line, or whole, and then it takes another line and stays whole, unless its
 * lines are signed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "ledger/ledger.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_ledger_summary was, is;
    struct rp_ledger_ref mark;
    struct rp_err err = {0};
    char path[64];
    RP_FD fd = memfd_create("ledger", MFD_CLOEXEC);
    if (fd < 0 || rp_write_all(fd, data, size) < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int whole = rp_ledger_read(path, NULL, NULL, &was, &err) == 0;
    if (!whole)
        must_be_refusal(&err);
    err = (struct rp_err){0};
    struct rp_ledger_writer w = {.path = path, .named = 1, .running = -1};
    int added = rp_ledger_append(&w, RP_LEDGER_VERIFIED, NULL, json_object(), &mark, &err) == 0;
    if (!added && (err.code == RP_OK || !*mark.reason || strchr(err.msg, '\n')))
        abort();
    if (whole && *was.key) /* a line without a signature does not follow one with it */
        must(!added && err.code == RP_SIGNATURE);
    else if (whole && (!added || mark.position != was.lines + 1 || rp_ledger_read(path, NULL, NULL, &is, &err) < 0 ||
                  is.lines != was.lines + 1 || strcmp(is.head, mark.head) != 0))
        abort();
    return 0;
}
