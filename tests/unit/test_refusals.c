/* What readers of strangers' files refuse that no other test gives them: tables of a text or a file, the code and a
 * word of the message. */
#include "tests/unit/tap.h"

#include "base/buf.h"
#include "base/json.h"
#include "bundle/source.h"
#include "compare/compare.h"
#include "compare/result.h"
#include "data/archive_tree.h"
#include "data/files.h"
#include "data/store.h"
#include "import/import.h"
#include "import/lines.h"
#include "launch/launcher.h"
#include "ledger/ledger.h"
#include "process/process.h"
#include "recipe/recipe.h"
#include "recipe/yaml.h"
#include "sign/key.h"
#include "sign/statement.h"
#include "sign/timestamp.h"
#include "sign/trust.h"
#include "tests/unit/scratch.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rp_err err;

/* Message and code of the last refusal. */
#define EXPECT(failed, code_, word)                                                                                  \
    CHECK((failed) && err.code == (code_) && strstr(err.msg, word) && !strpbrk(err.msg, "\n\033"),                   \
          "not '%s' (%s): %s (%s)", word, rp_code_name(code_), err.msg, rp_code_name(err.code))

TEST(statement_that_is_no_statement_about_members)
{
#define STATEMENT(subject)                                                                                             \
    "{\"_type\": \"https://in-toto.io/Statement/v1\", \"predicateType\": \"urn:repro:run:4\", \"predicate\": {}, "     \
    "\"subject\": " subject "}"
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"3", "not a JSON object"},
        {STATEMENT("[3]"), "subject 0 is not an object"},
        {STATEMENT("[[]]"), "subject 0 is not an object"},
        {STATEMENT("[{\"name\": \"a\"}]"), "digest"},
        {STATEMENT("[{\"digest\": {\"sha256\": \"00\"}, \"name\": \"a\"}]"), "64 lower-case hex digits"},
        {STATEMENT("{}"), "subject"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_subject subject[4];
        RP_JSON *j = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
        CHECK(j != NULL, "%s", cases[i].text);
        EXPECT(rp_statement_subjects(j, subject, 4, &err) < 0, RP_MALFORMED, cases[i].word);
    }
}

TEST(document_of_results_with_another_form)
{
    static const struct {
        const char *text, *word;
    } cases[] = {{"{}", "its schema is ''"},
                 {"{\"schema\": \"repro-imported/99\", \"rows\": []}", "its schema is 'repro-imported/99'"},
                 {"{\"schema\": 1, \"rows\": []}", "its schema is ''"},
                 {"{\"schema\": \"" RP_IMPORTED_SCHEMA "\"}", "not a list"},
                 {"{\"schema\": \"" RP_IMPORTED_SCHEMA "\", \"rows\": {}}", "not a list"},
                 {"{\"schema\": \"" RP_IMPORTED_SCHEMA "\", \"rows\": [3]}", "row 1"},
                 {"{\"schema\": \"" RP_IMPORTED_SCHEMA "\", \"rows\": [{\"surprise\": 1}]}", "no property 'surprise'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_ROWS rows = {0};
        RP_JSON *j = json_loads(cases[i].text, 0, NULL);
        CHECK(j != NULL, "%s", cases[i].text);
        EXPECT(rp_rows_from_json(&rows, j, "doc.json", NULL, &err) < 0, RP_MALFORMED, cases[i].word);
    }
    RP_ROWS rows = {0};
    RP_JSON *many = json_pack("{s:s, s:[]}", "schema", RP_IMPORTED_SCHEMA, "rows");
    for (int i = 0; i <= RP_ROWS_MAX; i++)
        json_array_append_new(json_object_get(many, "rows"), json_object());
    EXPECT(rp_rows_from_json(&rows, many, "doc.json", NULL, &err) < 0, RP_MALFORMED, "at most 10000");
    EXPECT(rp_result_set(rp_rows_add(&rows), "surprise", "1", &err) < 0, RP_MALFORMED, "no property 'surprise'");
}

TEST(operands_of_compare_that_are_nothing_it_knows)
{
    static const struct {
        const char *name, *bytes;
        size_t size;
    } files[] = {
        {"text.json", "hello", 5}, {"zeros", "\0\0\0\0\0", 5}, {"image.png", "\211PNG\r\n", 6}, {"empty", "", 0}};
    const struct rp_result_opts o = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        RP_ROWS rows = {0};
        EXPECT(rp_rows_load(&rows, put_file(files[i].name, files[i].bytes, files[i].size), &o, &err) < 0,
               RP_MALFORMED, "neither a bundle nor");
    }
    if (tap_long()) { /* the address sanitizer touches half a gigabyte for it, 25 seconds long */
        RP_ROWS rows = {0};
        RP_BUF csv = {0};
        rp_buf_puts(&csv, "framework,throughput,unit\n");
        for (int i = 0; i <= RP_ROWS_MAX; i++)
            rp_buf_puts(&csv, "a,1,images/s\n");
        EXPECT(rp_rows_from_csv(&rows, csv.data, csv.size, "many.csv", "", &err) < 0, RP_MALFORMED,
               "more than 10000 results");
    }
    struct rp_comparison c = {0};
    enum rp_comparable verdict;
    RP_ROWS all = {0};
    for (int i = 0; i < 1001; i++)
        rp_rows_add(&all);
    EXPECT(rp_compare(&c, &all, &verdict, &err) < 0, RP_USAGE, "1001 results, but at most 1000");
    rp_object_fini(&c, &rp_type_comparison);
}

TEST(recipes_have_a_size_and_so_have_their_texts)
{
    struct rp_recipe r;
    RP_BUF text = {0};
    rp_buf_puts(&text, "workload: bert\n#");
    while (text.size <= RP_RECIPE_MAX)
        rp_buf_puts(&text, "x");
    EXPECT(rp_recipe_parse(&r, text.data, text.size, "large.yaml", NULL, NULL, 0, &err) < 0, RP_MALFORMED,
           "a recipe has at most");
    RP_FREE char *name = rp_alloc(4098), *setting = NULL;
    memset(name, 'x', 4097);
    setting = rp_asprintf("data.path=%s", name);
    const char *const set[] = {setting};
    EXPECT(rp_recipe_parse(&r, "workload: bert\n", 15, "r.yaml", NULL, set, 1, &err) < 0, RP_USAGE,
           "expected at most 4096 bytes, found 4097");
}

TEST(blocks_of_an_archived_file_that_overlap)
{
    struct rp_archive_tree w;
    CHECK(rp_archive_tree_init(&w, scratch_new(), &err) == 0 && rp_archive_tree_begin(&w, "a", &err) == 0 &&
              rp_archive_tree_add(&w, "abcd", 4, 8, &err) == 0, "%s", err.msg);
    for (int64_t at = 0; at < 12; at += 11)
        EXPECT(rp_archive_tree_add(&w, "efgh", 4, at, &err) < 0, RP_MALFORMED, "overlap");
    CHECK(rp_archive_tree_add(&w, "efgh", 4, 12, &err) == 0 && rp_archive_tree_end(&w, "a", 16, &err) == 0, "%s",
          err.msg);
    rp_archive_tree_fini(&w);
}

TEST(response_of_an_authority_without_a_token)
{
    static const struct {
        const char *der;
        size_t size;
        const char *word;
    } cases[] = {{"", 0, "not a time stamp response"},
                 {"\x30\x03\x02\x01", 4, "not a time stamp response"},
                 {"\x30\x05\x30\x03\x02\x01\x00", 7, "not a time stamp response"}, /* granted, and nothing */
                 {"\x30\x05\x30\x03\x02\x01\x02!", 8, "after the time stamp response: 1 byte"},
                 {"\x30\x05\x30\x03\x02\x01\x02", 7, ""}}; /* rejected */
    RP_BUF statement = {0};
    rp_buf_puts(&statement, "{}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_timestamp t;
        EXPECT(rp_timestamp_read(&t, cases[i].der, cases[i].size, &statement, &err) < 0, RP_MALFORMED, cases[i].word);
    }
}

TEST(files_of_a_data_set_that_change_while_they_are_used)
{
    struct rp_files f;
    char got[8];
    RP_FREE char *a = rp_strdup(put_file("set.a", "12345678", 8)), *b = rp_strdup(put_file("set.b", "12345678", 8));
    char *const both[] = {a, b};
    CHECK(rp_files_open(&f, a, "", &err) == 0, "%s", err.msg);
    rp_files_close(&f);
    f = (struct rp_files){.last = -1};
    CHECK(rp_files_add(&f, both, 2, &err) == 0, "%s", err.msg);
    CHECK(rp_files_read(&f, 0, 0, got, 8, &err) == 0, "%s", err.msg);
    put_file("set.b", "1234", 4);
    EXPECT(rp_files_read(&f, 1, 0, got, 8, &err) < 0, RP_IO, "changed while it was in use: it had 8 bytes");
    unlink(b);
    CHECK(rp_files_read(&f, 0, 0, got, 8, &err) == 0, "%s", err.msg); /* one is open at a time */
    EXPECT(rp_files_read(&f, 1, 0, got, 8, &err) < 0, RP_IO, "cannot open");
    mkdir(b, 0700);
    EXPECT(rp_files_read(&f, 1, 0, got, 8, &err) < 0, RP_IO, "changed while it was in use");
    rmdir(b);
    rp_files_close(&f);
}

/* What looks like a regular file and cannot be read. */
TEST(files_that_cannot_be_read)
{
    static const char *const path = "/proc/self/mem";
    struct rp_lines l;
    struct rp_ledger_summary sum;
    RP_BUF bytes = {0};
    char hex[RP_SHA256_HEX], *line;
    size_t size;
    EXPECT(rp_lines_open(&l, path, "mem", &err) < 0 || rp_lines_next(&l, &line, &size, &err) < 0, RP_IO,
           "cannot read 'mem'");
    rp_lines_fini(&l);
    EXPECT(rp_ledger_read(path, NULL, NULL, &sum, &err) < 0, RP_IO, "cannot read");
    EXPECT(rp_read_file(&bytes, path, 100, &err) < 0, RP_IO, "cannot read");
    EXPECT(rp_sha256_file(hex, path, NULL, &err) < 0, RP_IO, "cannot read");
}

TEST(directories_that_hold_no_bundle)
{
    RP_BUNDLE_SOURCE s = {.fd = -1};
    RP_FREE char *dir = rp_strdup(scratch_new());
    RP_FREE char *statement = rp_asprintf("%s/statement.dsse.json", dir), *link = rp_asprintf("%s/link", dir),
                 *deep = rp_strdup(dir);
    EXPECT(rp_bundle_source_open(&s, dir, &err) < 0, RP_IO, "no statement.dsse.json");
    rp_bundle_source_close(&s);
    CHECK(rp_write_file(statement, "{}", 2, 0600, &err) == 0 && symlink("statement.dsse.json", link) == 0, "%s",
          err.msg);
    EXPECT(rp_bundle_source_open(&s, dir, &err) < 0, RP_MALFORMED, "neither a regular file nor a folder");
    rp_bundle_source_close(&s);
    unlink(link);
    CHECK(mkfifo(link, 0600) == 0, "no pipe");
    EXPECT(rp_bundle_source_open(&s, dir, &err) < 0, RP_MALFORMED, "neither a regular file nor a folder");
    rp_bundle_source_close(&s);
    unlink(link);
    for (int i = 0; i < 6; i++) {
        char *next = rp_asprintf("%s/d", deep);
        free(deep);
        deep = next;
        CHECK(mkdir(deep, 0700) == 0, "%s", deep);
    }
    EXPECT(rp_bundle_source_open(&s, dir, &err) < 0, RP_MALFORMED, "neither a regular file nor a folder");
    rp_bundle_source_close(&s);
}

/* Records of another process, which may be on another host. */
TEST(records_of_a_process_that_are_none)
{
    static const struct {
        const char *head, *body;
        const char *word;
    } cases[] = {{"RPW2\1\0\4\0\2\0\0\0\0\0\0\0", "{}", "bytes that are not a record"},
                 {"RPW1\2\0\4\0\2\0\0\0\0\0\0\0", "{}", "version 2"},
                 {"RPW1\1\0\4\0\1\0\0\1\0\0\0\0", "{}", "16777217 bytes"},
                 {"RPW1\1\0\4\0\2\0\0\0\1\0\0\0", "{}", "2 bytes"},
                 {"RPW1\1\0\4\0\2\0\0\0\0\0\0\0", "{]", ""},
                 {"RPW1\1\0\4\0\2\0\0\0\0\0\0\0", "[]", "not a JSON object"},
                 {"RPW1\1\0\4\0\2\0\0\0\0\0\0\0", "12", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[18];
        size_t used;
        enum rp_frame type;
        json_t *body;
        memcpy(bytes, cases[i].head, 16);
        memcpy(bytes + 16, cases[i].body, 2);
        EXPECT(rp_frame_decode_at(bytes, sizeof bytes, &used, &type, &body, &err) < 0, RP_MALFORMED, cases[i].word);
        CHECK(!body && !used, "a body was read");
    }
    RP_BUF out = {0};
    RP_FREE char *long_text = rp_alloc(RP_FRAME_MAX + 1);
    memset(long_text, 'x', RP_FRAME_MAX);
    RP_JSON *large = json_pack("{s:s}", "text", long_text), *nothing = json_object();
    EXPECT(rp_frame_encode(&out, RP_FRAME_STEP, large, &err) < 0, RP_BUG, "over the limit");
    int s[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0, "no sockets");
    close(s[1]);
    EXPECT(rp_frame_write(s[0], RP_FRAME_STEP, nothing, &err) < 0, RP_IO, "cannot send a record");
    close(s[0]);
}

TEST(entry_of_the_trust_store_that_is_no_file)
{
    char print[RP_FINGERPRINT_SIZE];
    RP_FREE char *home = rp_strdup(scratch_new());
    RP_FREE char *store = rp_asprintf("%s/repro/trust", home), *entry = rp_asprintf("%s/alice.pem", store);
    CHECK(setenv("XDG_CONFIG_HOME", home, 1) == 0 && rp_mkdirs(store, 0700, &err) == 0 && mkdir(entry, 0700) == 0,
          "%s", err.msg);
    EXPECT(rp_trust_resolve(print, "alice", &err) < 0, RP_IO, "alice.pem");
    rmdir(entry);
    CHECK(mkfifo(entry, 0600) == 0, "no pipe");
    EXPECT(rp_trust_resolve(print, "alice", &err) < 0, RP_IO, "alice.pem");
}

TEST(logs_with_more_than_is_read)
{
    struct rp_import im = {.importer = rp_importer_find("nccl", &err)};
    const struct rp_import_opts o = {.from = -1, .to = -1};
    RP_BUF text = {0};
    RP_FREE char *line = rp_alloc(1 << 20);
    memset(line, ' ', (1 << 20) - 1);
    line[(1 << 20) - 2] = '\n';
    rp_buf_puts(&text, "{\n");
    for (int i = 0; i < 65; i++)
        rp_buf_puts(&text, line);
    EXPECT(rp_import_memory(&im, "nccl.json", text.data, text.size, &o, &err) < 0, RP_MALFORMED,
           "more than 64 MiB of JSON");
    rp_import_fini(&im);
    struct rp_import full = {.n = RP_IMPORT_ROWS_MAX};
    struct rp_import_source s = {.import = &full, .name = "many.log"};
    struct rp_imported row = {0};
    rp_lines_memory(&s.lines, "many.log", "", 0);
    EXPECT(rp_import_add(&s, &row, &err) < 0, RP_MALFORMED, "more than 100000 results");
    rp_lines_fini(&s.lines);
}

TEST(archive_that_no_digest_pins)
{
    struct rp_recipe r;
    struct rp_data_set set;
    CHECK(rp_recipe_parse(&r, "workload: bert\n", 15, "r.yaml", NULL, NULL, 0, &err) == 0, "%s", err.msg);
    free(r.data_archive);
    free(r.data_sha256);
    r.data_archive = rp_strdup("bert_sample.tar.zst");
    r.data_sha256 = NULL;
    EXPECT(rp_data_prepare(&r, scratch_new(), &set, &err) < 0, RP_USAGE,
           "data.sha256 is not set; archive 'bert_sample.tar.zst' has ");
    rp_recipe_fini(&r);
}

TEST(more_files_than_a_data_set_has)
{
    struct rp_files f = {.n = RP_FILES_MAX, .last = -1};
    RP_FREE char *one = rp_strdup(put_file("one.more", "1", 1));
    char *const path[] = {one};
    EXPECT(rp_files_add(&f, path, 1, &err) < 0, RP_MALFORMED, "more than 100000 files");
    CHECK(f.n == RP_FILES_MAX, "%d files", f.n); /* which were never there: nothing to close */
}

TEST(launcher_that_is_none)
{
    struct rp_launch l;
    const struct rp_launch_opts o = {.launcher = "\033[31mslurmm"};
    EXPECT(rp_launch_detect(&l, &o, &err) < 0, RP_USAGE, "expected one of");
}

/* Whose key it is cannot be told without its passphrase, for which nobody is asked. */
TEST(own_key_that_is_encrypted)
{
    char print[RP_FINGERPRINT_SIZE];
    RP_FREE char *path = rp_asprintf("%s/own.pem", scratch_new());
    CHECK(rp_key_create(path, "correct horse", &err) == 0, "%s", err.msg);
    CHECK(setenv("REPRO_KEY", path, 1) == 0, "no variable");
    EXPECT(rp_key_own(print, &err) < 0, RP_UNAVAILABLE, "is encrypted");
    unsetenv("REPRO_KEY");
}
