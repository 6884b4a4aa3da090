/* Reading below a root: names in their order, what of a process's status is kept, and texts that would turn a line
 * around. */
#include "base/json.h"
#include "capture/container/container.h"
#include "capture/container/security.h"
#include "capture/record.h"
#include "tests/unit/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rp_probe begin(struct rp_capture_opts *o)
{
    *o = (struct rp_capture_opts){.root = scratch_new()};
    return (struct rp_probe){
        .opts = o, .root = open(o->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .name = "x", .salt = "00"};
}

/* An order is one: of any three names, whatever their sequence. */
TEST(names_are_sorted_by_number)
{
    static const char *const names[] = {"a9", "a10", "a1x", "node2", "node10", "node10a", "a", "10", "9", "b"};
    static const char *const sorted[] = {"9", "10", "a", "a1x", "a9", "a10", "b", "node2", "node10", "node10a"};
    struct rp_capture_opts o;
    struct rp_probe p = begin(&o);
    struct rp_dirlist d;
    CHECK(mkdirat(p.root, "d", 0755) == 0, "no directory");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RP_FREE char *path = rp_asprintf("d/%s", names[i]);
        CHECK(mkdirat(p.root, path, 0755) == 0, "%s", names[i]);
    }
    rp_dirlist_read(&d, &p, "/d", 99);
    CHECK(d.n == (int)(sizeof sorted / sizeof *sorted), "%d names", d.n);
    for (int i = 0; i < d.n; i++)
        CHECK_STR(d.name[i], sorted[i]);
    rp_dirlist_free(&d);
    rp_closep(&p.root);
}

TEST(a_status_names_nobody)
{
    static const char status[] =
        "Name:\trepro\nUid:\t1000\t0\t0\t0\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 1000 5005\nCapEff:\t00\n"
        "Seccomp:\t2\nCpus_allowed_list:\t0-3\n";
    struct rp_capture_opts o;
    struct rp_probe p = begin(&o);
    struct rp_err err;
    RP_FREE char *file = rp_asprintf("%s/proc/self/status", o.root);
    *strrchr(file, '/') = 0;
    CHECK(rp_mkdirs(file, 0755, &err) == 0, "%s", err.msg);
    file[strlen(file)] = '/';
    CHECK(rp_write_file(file, status, sizeof status - 1, 0644, &err) == 0, "%s", err.msg);
    RP_TEXT t;
    rp_status_read(&t, &p);
    CHECK_STR(t.bytes.data, "Uid:\t65534\t0\nCapEff:\t00\nSeccomp:\t2\nCpus_allowed_list:\t0-3\n");
    rp_closep(&p.root);
}

TEST(texts_that_turn_around_are_none)
{
    RP_JSON *out = json_object();
    rp_put_str(out, "a", "safe \xe2\x80\xae" "cod.exe", "x");
    rp_put_str(out, "b", "stra\xc3\x9f" "e", "x");
    CHECK_STR(json_string_value(json_object_get(json_object_get(out, "a"), "state")), "error");
    CHECK_STR(json_string_value(json_object_get(json_object_get(out, "b"), "state")), "ok");
}

/* A mount, say, that is gone when the next probe reads the list again: the document has to be the one of the record. */
TEST(a_file_that_changes_is_recorded_as_it_was_first)
{
    struct rp_capture_opts o;
    struct rp_probe p = begin(&o);
    struct rp_err err;
    RP_FREE char *file = rp_asprintf("%s/mounts", o.root), *to = rp_asprintf("%s/record", scratch_new());
    RP_TEXT first = {0};
    RP_TEXT again = {0};
    RP_TEXT absent = {0};
    p.record = rp_record_new(to, p.root, "00", "2026-11-29T00:00:00Z", &err);
    CHECK(p.record != NULL, "%s", err.msg);
    CHECK(rp_write_file(file, "one\n", 4, 0644, &err) == 0, "%s", err.msg);
    rp_text_read(&first, &p, "/mounts");
    CHECK(rp_write_file(file, "two\n", 4, 0644, &err) == 0, "%s", err.msg);
    rp_text_read(&again, &p, "/mounts");
    CHECK_STR(first.bytes.data, "one\n");
    CHECK_STR(again.bytes.data, "one\n");
    rp_text_read(&absent, &p, "/later");
    CHECK(absent.state == RP_STATE_ABSENT, "there is /later");
    rp_text_fini(&absent);
    RP_FREE char *later = rp_asprintf("%s/later", o.root);
    CHECK(rp_write_file(later, "x\n", 2, 0644, &err) == 0, "%s", err.msg);
    rp_text_read(&absent, &p, "/later");
    CHECK(absent.state == RP_STATE_ABSENT && !absent.bytes.data, "/later was not there first");
    rp_record_free(p.record);
    rp_closep(&p.root);
}

/* Apptainer leaves no mark but the folder that it adds to every image. */
TEST(engine_without_a_daemon_is_found)
{
    struct rp_capture_opts o;
    struct rp_probe p = begin(&o);
    struct rp_engine e;
    RP_MOUNTS m;
    rp_mounts_read(&m, &p);
    rp_engine_find(&e, &p, &m);
    CHECK_STR(e.name, "");
    CHECK(mkdirat(p.root, ".singularity.d", 0755) == 0, "no folder");
    rp_engine_find(&e, &p, &m);
    CHECK_STR(e.name, "apptainer");
    rp_closep(&p.root);
}
