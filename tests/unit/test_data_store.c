/* The store: unpacked once, checked at every use, whatever runs at the same time, dies half-way or fills the disk. */
#include "tests/unit/tap.h"

#include "base/hash.h"
#include "data/archive.h"
#include "data/embedded_data.h"
#include "data/store.h"
#include "data/synthetic/make.h"
#include "tests/unit/data_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>

static struct rp_err err;

/* An archive of two files of good samples; hex receives its digest. */
static const char *sample_archive(char hex[65])
{
    static char path[256];
    RP_BUF f = {0};
    struct sample s;
    for (int i = 0; i < 4; i++) {
        good_sample(&s, i);
        add_sample(&f, &s);
    }
    struct rp_archive_member m[2] = {{(char[]){"a.tfrecord"}, (unsigned char *)f.data, f.size},
                                     {(char[]){"b.tfrecord"}, (unsigned char *)f.data, f.size}};
    snprintf(path, sizeof path, "%s", scratch("sample.tar.zst"));
    if (write_archive(path, m, 2, &err) < 0 || rp_sha256_file(hex, path, NULL, &err) < 0)
        abort();
    return path;
}

/* Entries of a directory whose names begin with prefix. */
static int count(const char *dir, const char *prefix)
{
    int n = 0;
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL)
        n += e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    if (d)
        closedir(d);
    return n;
}

/* A plain tar of `mib` MiB in files of 1 MiB: slow enough to be caught half-way. */
static const char *big_archive(int mib)
{
    static char path[256];
    struct rp_archive_member *m = rp_alloc((size_t)mib * sizeof *m);
    unsigned char *bytes = rp_alloc(1 << 20);
    for (int i = 0; i < mib; i++) {
        m[i] = (struct rp_archive_member){rp_asprintf("%04d.tfrecord", i), bytes, 1 << 20};
    }
    snprintf(path, sizeof path, "%s", scratch("big.tar"));
    if (write_archive(path, m, mib, &err) < 0)
        abort();
    for (int i = 0; i < mib; i++)
        free(m[i].name);
    free(m);
    free(bytes);
    return path;
}

static void no_store_in_environment(void)
{
    unsetenv("REPRO_STORE");
    unsetenv("XDG_CACHE_HOME");
}

TEST(where_the_store_is)
{
    int named;
    char want[64];
    const char *home = getenv("HOME");
    RP_FREE char *kept = home ? rp_strdup(home) : NULL;
    setenv("REPRO_STORE", "/r", 1);
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    RP_FREE char *a = rp_store_path("/given", &named);
    CHECK_STR(a, "/given");
    CHECK(named);
    RP_FREE char *b = rp_store_path(NULL, &named);
    CHECK_STR(b, "/r");
    CHECK(named);
    unsetenv("REPRO_STORE");
    RP_FREE char *c = rp_store_path(NULL, &named);
    CHECK_STR(c, "/x/repro");
    CHECK(!named);
    setenv("XDG_CACHE_HOME", "relative", 1);
    RP_FREE char *d = rp_store_path("", &named);
    CHECK_STR(d, "/h/.cache/repro");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    RP_FREE char *e = rp_store_path(NULL, &named);
    snprintf(want, sizeof want, "/tmp/repro-%ld", (long)geteuid());
    CHECK_STR(e, want);
    CHECK(!named);
    if (kept)
        setenv("HOME", kept, 1);
}

TEST(unpack_once_then_reuse)
{
    char hex[65], got[65], want[400], link[400];
    const char *archive = sample_archive(hex), *store = scratch("s1/deep");
    RP_FREE char *dir = NULL, *again = NULL;
    CHECK(rp_store_unpack(archive, hex, store, &dir, got, &err) == 0, "%s", err.msg);
    snprintf(want, sizeof want, "%s/sha256-%s", store, hex);
    CHECK_STR(dir, want);
    CHECK_STR(got, hex);
    CHECK(count(store, "") == 1, "nothing but the entry is left");
    struct stat one, two;
    snprintf(link, sizeof link, "%s/a.tfrecord", want);
    CHECK(stat(link, &one) == 0);
    CHECK(rp_store_unpack(archive, NULL, store, &again, got, &err) == 0 && stat(link, &two) == 0 &&
          one.st_ino == two.st_ino);
    snprintf(link, sizeof link, "cd %s && sha256sum -c --quiet .repro-files", want);
    CHECK(system(link) == 0, "stock tools check the entry");
    struct rp_store_entry *e;
    int n;
    CHECK(rp_store_list(store, &e, &n, &err) == 0 && n == 1);
    CHECK(n == 1 && strcmp(e[0].sha256, hex) == 0 && e[0].files == 2 && e[0].bytes == 2 * (uint64_t)one.st_size);
    rp_store_list_free(e, n);
    CHECK(rp_store_list(scratch("nostore"), &e, &n, &err) == 0 && n == 0);
    rp_store_list_free(e, n);
}

TEST(another_archive_under_the_pinned_name)
{
    char hex[65], got[65], wrong[65];
    const char *archive = sample_archive(hex);
    char *dir = NULL;
    memset(wrong, '0', 64);
    wrong[64] = 0;
    REFUSED(rp_store_unpack(archive, wrong, scratch("s2"), &dir, got, &err) < 0 && err.code == RP_MISMATCH && !dir,
            err.msg);
    CHECK(strstr(err.msg, hex) && strstr(err.msg, wrong), "%s", err.msg);
    CHECK(access(scratch("s2"), F_OK) < 0, "nothing was unpacked before the digest was compared");
}

/* Unpack, run `command` in the entry, ask for it again: the complaint names the entry, and `file` where that is not
 * NULL. */
static void tampered(const char *command, const char *file)
{
    char hex[65], run[600];
    const char *archive = sample_archive(hex);
    RP_FREE char *dir = NULL, *again = NULL;
    tree_remove(scratch("s3"));
    CHECK(rp_store_unpack(archive, hex, scratch("s3"), &dir, hex, &err) == 0, "%s", err.msg);
    snprintf(run, sizeof run, "cd %s && %s", dir, command);
    CHECK(system(run) == 0);
    REFUSED(rp_store_unpack(archive, hex, scratch("s3"), &again, hex, &err) < 0 && err.code == RP_MISMATCH, err.msg);
    CHECK(strstr(err.msg, dir) && (!file || strstr(err.msg, file)), "%s: %s", command, err.msg);
}

TEST(a_store_that_was_changed_is_noticed)
{
    tampered("printf x | dd of=b.tfrecord bs=1 seek=30 conv=notrunc 2>/dev/null", "b.tfrecord");
    tampered("rm a.tfrecord", "a.tfrecord");
    tampered("rm b.tfrecord", "b.tfrecord");
    tampered("cp b.tfrecord c.tfrecord", "c.tfrecord");
    tampered("cp b.tfrecord 0.tfrecord", "0.tfrecord");
    tampered("mkdir d && touch d/x", "d/x");
    tampered("rm .repro-files", NULL);
}

/* ---- several at once, and deaths ---- */

static pid_t start_unpacking(const char *archive, const char *store)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *dir, hex[65];
        struct rp_err e;
        int rc = rp_store_unpack(archive, NULL, store, &dir, hex, &e);
        if (rc < 0)
            printf("# %s\n", e.msg);
        fflush(stdout);
        _exit(rc < 0);
    }
    return pid;
}

TEST(several_at_once_share_one_entry)
{
    const char *archive = big_archive(6), *store = scratch("s4");
    pid_t pid[4];
    int failed = 0, status;
    for (int i = 0; i < 4; i++)
        pid[i] = start_unpacking(archive, store);
    for (int i = 0; i < 4; i++)
        failed += waitpid(pid[i], &status, 0) < 0 || status != 0;
    CHECK(failed == 0, "%d of 4 failed", failed);
    CHECK(count(store, "sha256-") == 1 && count(store, "") == 1, "%d entries, %d in all", count(store, "sha256-"),
          count(store, ""));
}

static void wait_ms(int ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

/* Is some .../tmp.x/data of the store not empty? */
static int half_way(const char *store)
{
    int n = 0;
    DIR *d = opendir(store);
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL)
        if (strncmp(e->d_name, "tmp.", 4) == 0) {
            RP_FREE char *data = rp_asprintf("%s/%s/data", store, e->d_name);
            n += count(data, "") > 0;
        }
    if (d)
        closedir(d);
    return n;
}

TEST(killed_half_way_leaves_nothing_under_the_name)
{
    const char *archive = big_archive(48), *store = scratch("s5");
    int caught = 0, status;
    for (int attempt = 0; attempt < 5 && !caught; attempt++) {
        tree_remove(store);
        pid_t pid = start_unpacking(archive, store);
        for (int i = 0; i < 4000 && !half_way(store) && !count(store, "sha256-"); i++)
            wait_ms(1);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        caught = WIFSIGNALED(status) && count(store, "sha256-") == 0;
    }
    CHECK(caught, "never caught half-way");
    CHECK(count(store, "tmp.") == 1, "the leftover of the dead");
    /* its helper dies with it, so the lock is free soon; the next run removes the leftover and finishes */
    int left = 1;
    for (int i = 0; i < 100 && left; i++) {
        char *dir = NULL, hex[65];
        CHECK(rp_store_unpack(archive, NULL, store, &dir, hex, &err) == 0, "%s", err.msg);
        free(dir);
        left = count(store, "tmp.");
        if (left) {
            wait_ms(20);
            char command[400];
            snprintf(command, sizeof command, "rm -r %s/sha256-*", store);
            CHECK(system(command) == 0);
        }
    }
    CHECK(left == 0 && count(store, "sha256-") == 1);
}

TEST(a_leftover_whose_lock_is_held_is_left_alone)
{
    char hex[65];
    const char *archive = sample_archive(hex), *store = scratch("s6");
    char *dir = NULL;
    mkdir(store, 0755);
    mkdir(scratch("s6/tmp.1.0"), 0755);
    mkdir(scratch("s6/tmp.2.0"), 0755);
    mkdir(scratch("s6/tmp.3.0"), 0755);
    RP_FD held = open(scratch("s6/tmp.1.0/lock"), O_RDWR | O_CREAT, 0600);
    CHECK(held >= 0 && flock(held, LOCK_EX) == 0);
    put_file("s6/tmp.2.0/lock", "", 0);
    CHECK(rp_store_unpack(archive, hex, store, &dir, hex, &err) == 0, "%s", err.msg);
    free(dir);
    CHECK(count(store, "tmp.1.0") == 1, "in use");
    CHECK(count(store, "tmp.2.0") == 0, "free");
    CHECK(count(store, "tmp.3.0") == 0, "killed before it had a lock");
}

/* ---- disks ---- */

TEST(a_full_disk_is_said_and_leaves_nothing)
{
    const char *archive = big_archive(6), *store = scratch("full");
    char *dir = NULL, hex[65];
    mkdir(store, 0755);
    if (mount("tmpfs", store, "tmpfs", 0, "size=3m") < 0)
        SKIP("mounting a small tmpfs is not allowed here");
    CHECK(rp_store_unpack(archive, NULL, store, &dir, hex, &err) < 0 && err.code == RP_IO);
    CHECK(strstr(err.msg, "No space left") && strstr(err.msg, "--store"), "%s", err.msg);
    CHECK(count(store, "") == 0, "nothing is left");
    CHECK(umount(store) == 0);
}

/* The same by a limit that needs no privilege. */
TEST(a_file_size_limit_is_an_error_not_a_signal)
{
    const char *archive = big_archive(3), *store = scratch("limited");
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit l = {1 << 19, 1 << 19};
        char *dir, hex[65];
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &l);
        int rc = rp_store_unpack(archive, NULL, store, &dir, hex, &err);
        _exit(rc == 0 ? 1 : err.code != RP_IO ? 2 : !strstr(err.msg, "File too large") ? 3 : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    CHECK(count(store, "") == 0);
}

TEST(a_read_only_store_is_used_when_it_has_the_entry)
{
    char hex[65];
    const char *archive = sample_archive(hex), *store = scratch("ro");
    char *dir = NULL;
    mkdir(store, 0755);
    if (mount("tmpfs", store, "tmpfs", 0, "size=3m") < 0)
        SKIP("mounting is not allowed here");
    CHECK(mount(NULL, store, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(rp_store_unpack(archive, hex, store, &dir, hex, &err) < 0 && err.code == RP_IO);
    SAID(err.msg);
    CHECK(mount(NULL, store, NULL, MS_REMOUNT, "size=3m") == 0);
    CHECK(rp_store_unpack(archive, hex, store, &dir, hex, &err) == 0, "%s", err.msg);
    free(dir);
    dir = NULL;
    CHECK(mount(NULL, store, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    CHECK(rp_store_unpack(archive, hex, store, &dir, hex, &err) == 0, "%s", err.msg);
    free(dir);
    CHECK(umount(store) == 0);
}

TEST(a_store_that_is_a_file)
{
    char hex[65];
    const char *archive = sample_archive(hex);
    char *dir = NULL;
    put_file("notdir", "x", 1);
    CHECK(rp_store_unpack(archive, hex, scratch("notdir"), &dir, hex, &err) < 0 && err.code == RP_IO &&
              strstr(err.msg, "--store"),
          "%s", err.msg);
    CHECK(rp_store_unpack(scratch("missing.tar"), NULL, scratch("s7"), &dir, hex, &err) < 0 && err.code == RP_IO);
    CHECK(rp_store_unpack("/dev/zero", NULL, scratch("s7"), &dir, hex, &err) < 0 && err.code == RP_IO, "%s", err.msg);
}

/* ---- recipes ---- */

TEST(data_of_a_recipe)
{
    char hex[65], name[300];
    struct rp_data_set s;
    const char *archive = sample_archive(hex);
    no_store_in_environment();
    snprintf(name, sizeof name, "%s", scratch("recipe.yaml"));
    struct rp_recipe r = {.source_name = name, .data_archive = (char[]){"sample.tar.zst"}, .data_sha256 = hex};
    (void)archive;
    CHECK(rp_data_prepare(&r, scratch("s8"), &s, &err) == 0, "%s", err.msg);
    CHECK(s.pinned == 1 && s.digest && strlen(s.digest) == 64);
    CHECK_STR(s.archive, "sample.tar.zst");
    CHECK_STR(s.sha256, hex);
    struct rp_dataset *d = open_bert(s.path ? s.path : "", NULL, 0, 0, &err);
    CHECK(d && d->format->count(d) == 8, "%s", err.msg);
    close_data(d);
    RP_FREE char *digest = rp_strdup(s.digest), *path = rp_strdup(s.path);
    rp_data_set_fini(&s);
    /* the same files as the user's own directory: same digest, not pinned */
    struct rp_recipe own = {.source_name = name, .data_path = path};
    CHECK(rp_data_prepare(&own, NULL, &s, &err) == 0 && s.pinned == 0 && !s.archive && !s.sha256, "%s", err.msg);
    CHECK_STR(s.digest, digest);
    CHECK_STR(s.path, path);
    rp_data_set_fini(&s);
    char wrong[65];
    memset(wrong, 'a', 64);
    wrong[64] = 0;
    r.data_sha256 = wrong;
    CHECK(rp_data_prepare(&r, scratch("s8"), &s, &err) < 0 && err.code == RP_MISMATCH && strstr(err.msg, hex) &&
          strstr(err.msg, wrong));
    CHECK(!s.path && !s.digest);
    r.data_archive = (char[]){"other.tar"};
    CHECK(rp_data_prepare(&r, scratch("s8"), &s, &err) < 0 && err.code == RP_IO && strstr(err.msg, "other.tar"), "%s",
          err.msg);
    r.data_archive = NULL;
    CHECK(rp_data_prepare(&r, NULL, &s, &err) < 0 && err.code == RP_USAGE && strstr(err.msg, "data.path"), "%s",
          err.msg);
}

/* A pinned sample is what its generator makes by default. */
static void check_sample(const char *generator, const char *archive, char hex[65])
{
    struct rp_archive_source a;
    struct rp_archive_member *m = NULL;
    struct rp_make_opts o = {0};
    char name[64];
    int n = 0;
    const struct rp_generator *g = rp_generator_find(generator);
    CHECK(rp_make_options(&o, g, &err) == 0, "%s", err.msg);
    if (!CHECK(rp_embedded_archive(archive, &a) == 0, "%s", archive))
        return;
    rp_sha256_hex(hex, a.data, a.size);
    CHECK(rp_archive_load(&a, RP_EMBEDDED_MAX, &m, &n, &err) == 0 && n == o.shards, "%s", err.msg);
    for (int i = 0; i < n; i++) {
        RP_BUF shard = {0};
        rp_make_shard_name(name, g, &o, i, 0);
        CHECK_STR(m[i].name, name);
        CHECK(rp_make_shard(&shard, g, &o, i, &err) == 0, "%s", err.msg);
        CHECK(shard.size == m[i].size && memcmp(shard.data, m[i].data, shard.size) == 0,
              "%s: shard %d is not what the generator makes", archive, i);
    }
    rp_archive_members_free(m, n);
}

/* The pinned samples: in this program, beside the recipes, and made again by their generators. */
TEST(the_embedded_sample_needs_no_file_system)
{
    char hex[65];
    struct rp_data_set s;
    check_sample("images", "imagenet_sample.tar.zst", hex);
    check_sample("gpt", "gpt_sample.tar.zst", hex);
    check_sample("bert", "bert_sample.tar.zst", hex);
    /* a default store that cannot be made: memory */
    put_file("notdir2", "x", 1);
    setenv("XDG_CACHE_HOME", scratch("notdir2"), 1);
    unsetenv("REPRO_STORE");
    struct rp_recipe r = {
        .source_name = (char[]){"embedded:x"}, .data_archive = (char[]){"bert_sample.tar.zst"}, .data_sha256 = hex};
    CHECK(rp_data_prepare(&r, NULL, &s, &err) == 0, "%s", err.msg);
    CHECK_STR(s.path, "embedded:bert_sample.tar.zst");
    CHECK(s.pinned == 1);
    RP_FREE char *memory = rp_strdup(s.digest ? s.digest : "");
    rp_data_set_fini(&s);
    CHECK(rp_data_prepare(&r, scratch("s9"), &s, &err) == 0, "%s", err.msg);
    CHECK_STR(s.digest, memory);
    rp_data_set_fini(&s);
    /* a store that was named is not passed over in silence */
    CHECK(rp_data_prepare(&r, scratch("notdir2"), &s, &err) < 0 && err.code == RP_IO && strstr(err.msg, "--store"),
          "%s", err.msg);
    unsetenv("XDG_CACHE_HOME");
    const struct rp_sample_field want[] = BERT_WANTS(128, 20, 30522);
    struct rp_data_check c;
    struct rp_dataset *d = open_bert("embedded:bert_sample.tar.zst", want, 1, 3, &err);
    CHECK(d && d->format->count(d) >= 2000 && check_data(d, &c, &err) == 0, "%s", err.msg);
    close_data(d);
}
