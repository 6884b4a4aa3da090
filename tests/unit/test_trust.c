/* The trust store: how long a key is believed, and what damage to its files does. */
#include "tests/unit/bundle_fixture.h"

#include "base/clock.h"
#include "base/hash.h"
#include "sign/trust.h"

/* An entry as the program writes it, with a day of our choice. */
static void write_entry(const char *name, const char *until, const char *key)
{
    struct rp_err err;
    char hex[RP_SHA256_HEX];
    RP_BUF pem = {0};
    FX_KEY *k = fx_key(key);
    rp_key_public_pem(k, &pem);
    RP_FREE char *covered = rp_asprintf("repro-trust/1\nuntil: %s\n%s", until, pem.data);
    rp_sha256_hex(hex, covered, strlen(covered));
    RP_FREE char *text = rp_asprintf("repro-trust/1\nuntil: %s\nsha256: %s\n%s", until, hex, pem.data);
    RP_FREE char *dir = fx_path("repro/trust"), *path = rp_asprintf("%s/%s.pem", dir, name);
    CHECK(rp_mkdirs(dir, 0700, &err) == 0 && rp_write_file(path, text, strlen(text), 0644, &err) == 0, "%s", err.msg);
}

static int find(char name[RP_TRUST_NAME], char until[RP_DATE_SIZE], struct rp_err *err)
{
    static char print[RP_FINGERPRINT_SIZE]; /* all tests are about one key */
    if (!*print) {
        FX_KEY *k = fx_key("zoe");
        rp_key_fingerprint(k, print);
    }
    return rp_trust_find(print, name, until, err);
}

TEST(attacks_on_the_files_of_the_store)
{
    struct rp_err err;
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE], print[RP_FINGERPRINT_SIZE];
    RP_FREE char *dir = fx_path("repro/trust"), *entry = fx_path("repro/trust/zoe.pem"), *aside = fx_path("aside.pem");
    FX_KEY *k = fx_key("zoe");
    CHECK(rp_trust_add("zoe", NULL, k, &err) == 0 && find(name, until, &err) == 1, "%s", err.msg);
    static const mode_t modes[] = {0664, 0646, 0666};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        CHECK(chmod(entry, modes[i]) == 0 && rp_trust_resolve(print, "zoe", &err) < 0 && err.code == RP_USAGE,
              "mode %04o: %s", modes[i], err.msg);
        CHECK(find(name, until, &err) < 0 && !*name, "mode %04o: found", modes[i]);
        CHECK(strstr(err.msg, "chmod go-w") && strstr(err.msg, entry), "%s", err.msg);
    }
    CHECK(chmod(entry, 0644) == 0 && chmod(dir, 0775) == 0 && find(name, until, &err) < 0 &&
              strstr(err.msg, "chmod go-w"),
          "%s", err.msg);
    CHECK(rp_trust_add("zoe", NULL, k, &err) < 0 && err.code == RP_USAGE, "added where others can replace it");
    CHECK(chmod(dir, 01777) == 0 && find(name, until, &err) == 1, "sticky: %s", err.msg);
    CHECK(chmod(dir, 0755) == 0 && rename(entry, aside) == 0 && symlink(aside, entry) == 0, "%s", entry);
    CHECK(find(name, until, &err) < 0 && rp_trust_resolve(print, "zoe", &err) < 0 && err.code == RP_USAGE,
          "a link was followed");
    CHECK(rp_trust_resolve(print, aside, &err) == 0, "a file named by the user: %s", err.msg);
    CHECK(unlink(entry) == 0, "%s", entry);
}

TEST(a_key_is_believed_until_its_day_is_over)
{
    struct rp_err err;
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE], print[RP_FINGERPRINT_SIZE], today[32];
    fx_dir();
    FX_KEY *k = fx_key("zoe");
    rp_rfc3339(today, rp_wall_ns());
    today[10] = 0;
    CHECK(rp_trust_add("zoe", today, k, &err) == 0, "%s", err.msg); /* or it is midnight */
    CHECK(find(name, until, &err) == 1 && strcmp(name, "zoe") == 0 && strcmp(until, today) == 0, "%s %s", name, until);
    CHECK(rp_trust_resolve(print, "zoe", &err) == 0, "%s", err.msg);
    CHECK(rp_trust_add("zoe", NULL, k, &err) == 0 && find(name, until, &err) == 1 && !*until,
          "the day is not taken away: %s", until);
    CHECK(rp_trust_add("zoe", "9999-12-31", k, &err) == 0 && find(name, until, &err) == 1 &&
              strcmp(until, "9999-12-31") == 0,
          "%s", until);

    write_entry("zoe", "2001-09-11", "zoe");
    CHECK(find(name, until, &err) == 0 && strcmp(name, "zoe") == 0 && strcmp(until, "2001-09-11") == 0, "%s %s", name,
          until);
    REFUSED(rp_trust_resolve(print, "zoe", &err) < 0 && err.code == RP_SIGNATURE, err.msg);
    RP_FREE char *entry = fx_path("repro/trust/zoe.pem");
    REFUSED(rp_trust_resolve(print, entry, &err) < 0 && err.code == RP_SIGNATURE, err.msg); /* by its path */
    struct rp_trust_list list;
    CHECK(rp_trust_list(&list, &err) == 0 && list.n == 1 && list.key[0].expired, "%d", list.n);
    rp_trust_list_fini(&list);
    write_entry("zoe2", "never", "zoe"); /* under another name it is believed */
    CHECK(find(name, until, &err) == 1 && strcmp(name, "zoe2") == 0, "%s", name);
    CHECK(rp_trust_remove("zoe2", &err) == 0 && rp_trust_remove("zoe2", &err) < 0 && err.code == RP_USAGE, "%s",
          err.msg);
    CHECK(rp_trust_remove("../trust/zoe", &err) < 0 && err.code == RP_USAGE, "%s", err.msg);
    CHECK(rp_trust_remove("zoe", &err) == 0 && find(name, until, &err) == 0 && !*name, "still there");
    static const char *const no_days[] = {"",           "2027",     "2027-02-29", "2027-13-01",  "2027-00-10",
                                          "2027-01-32", "2027-1-1", "27-01-01",   "2027-06-30 ", "2027/06/30",
                                          "2001-01-01"};
    for (size_t i = 0; i < sizeof no_days / sizeof *no_days; i++)
        CHECK(rp_trust_add("zoe", no_days[i], k, &err) < 0 && err.code == RP_USAGE, "'%s' was taken as a day",
              no_days[i]);
    CHECK(rp_trust_add("zoe.pub", NULL, k, &err) < 0, "a name that reads as a file");
}

/* Without the fsync of rp_write_file(), which the thousands of changes below would wait for. */
static void overwrite(const char *path, const char *data, size_t size)
{
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(data, 1, size, f) == size && fclose(f) == 0, "%s", path);
}

/* Two or three bits of each byte: still this key until this day, or nothing that anybody has a private key for. */
static void flip(const char *file, int checked)
{
    struct rp_err err;
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE], before[RP_DATE_SIZE];
    RP_BUF text = {0};
    RP_FREE char *path = fx_path(file);
    CHECK(rp_read_file(&text, path, 4096, &err) == 0 && find(name, before, &err) == 1, "%s", err.msg);
    int same = 0;
    for (size_t i = 0; i < text.size; i++)
        for (int bit = (int)(i % 3); bit < 8; bit += 3) {
            text.data[i] ^= (char)(1 << bit);
            overwrite(path, text.data, text.size);
            int found = find(name, until, &err);
            CHECK(found <= 0 || strcmp(until, before) == 0, "byte %zu, bit %d: until '%s'", i, bit, until);
            CHECK(!checked || found < 0, "byte %zu, bit %d goes unnoticed", i, bit);
            same += found > 0;
            text.data[i] ^= (char)(1 << bit);
        }
    for (size_t n = 0; checked && n < text.size; n++) {
        overwrite(path, text.data, n);
        CHECK(find(name, until, &err) < 0, "%zu of %zu bytes", n, text.size);
    }
    printf("# %s: %d changes leave the key as it is\n", file, same);
    CHECK(unlink(path) == 0, "%s", path);
}

TEST(no_damage_to_an_entry_makes_it_believed_longer)
{
    struct rp_err err;
    RP_BUF pem = {0};
    RP_FREE char *bare = fx_path("repro/trust/bare.pem");
    write_entry("zoe", "2999-12-31", "zoe");
    flip("repro/trust/zoe.pem", 1);
    write_entry("zoe", "never", "zoe");
    flip("repro/trust/zoe.pem", 1);
    FX_KEY *k = fx_key("zoe");
    rp_key_public_pem(k, &pem);
    CHECK(rp_write_file(bare, pem.data, pem.size, 0644, &err) == 0, "%s", err.msg);
    flip("repro/trust/bare.pem", 0);
}

TEST(what_stands_before_a_key_is_an_entry_or_nothing)
{
    struct rp_err err;
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    RP_BUF pem = {0};
    RP_FREE char *path = fx_path("repro/trust/zoe.pem");
    FX_KEY *k = fx_key("zoe");
    rp_key_public_pem(k, &pem);
    write_entry("zoe", "never", "zoe");
    RP_FREE char *text = rp_asprintf("a remark\n%s", pem.data);
    CHECK(rp_write_file(path, text, strlen(text), 0644, &err) == 0 && find(name, until, &err) < 0, "found");
    SAID(err.msg);
    write_entry("zoe", "2027-02-30", "zoe"); /* a day that the calendar lacks, with its digest */
    CHECK(find(name, until, &err) < 0, "found");
    write_entry("zoe", "2999-12-31", "zoe");
    CHECK(find(name, until, &err) == 1, "%s", err.msg);
    RP_FREE char *more = fx_path("repro/trust/zoe.pem");
    RP_BUF entry = {0};
    CHECK(rp_read_file(&entry, more, 4096, &err) == 0, "%s", err.msg);
    rp_buf_puts(&entry, "\n");
    CHECK(rp_write_file(more, entry.data, entry.size, 0644, &err) == 0 && find(name, until, &err) < 0, "a line more");
}
