/* `repro data`: archives and samples, without training on them. */
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "data/archive.h"
#include "data/bert_data.h"
#include "data/corpus.h"
#include "data/embedded.h"
#include "data/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 123456789 -> "117.7 MiB" */
static const char *size_text(char out[32], uint64_t bytes)
{
    if (bytes < 1024)
        snprintf(out, 32, "%llu B", (unsigned long long)bytes);
    else if (bytes < 1u << 20)
        snprintf(out, 32, "%.1f KiB", (double)bytes / 1024);
    else
        snprintf(out, 32, "%.1f MiB", (double)bytes / (1 << 20));
    return out;
}

/* ---- data list ---- */

struct store_opts {
    const char *store, *sha256;
};
static const struct rp_opt store_opts[] = {
    {.name = "store", .type = RP_OPT_TEXT, .offset = offsetof(struct store_opts, store), .arg = "DIR",
     .help = "where archives are unpacked; default $REPRO_STORE or the cache directory"},
    {0},
};

static int on_member(void *arg, const char *name, char type, uint64_t size)
{
    struct rp_cli *cli = arg;
    const char *kind = type == 'd' ? "directory" : type == 'l' ? "link" : "file";
    if (cli->json)
        json_array_append_new(json_object_get(cli->result, "members"),
                              json_pack("{s:s, s:s, s:I}", "name", name, "type", kind, "size", (json_int_t)size));
    else
        printf("%12llu  %-9s  %s\n", (unsigned long long)size, kind, name);
    return 0;
}

static int list_archive(struct rp_cli *cli, const char *path, struct rp_err *err)
{
    struct rp_archive_limits limits = RP_ARCHIVE_LIMITS;
    struct rp_archive_stats stats = {0};
    struct rp_archive_source source;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size >= 0)
        source = (struct rp_archive_source){.name = path, .fd = fd, .size = (uint64_t)size};
    else if (errno != ENOENT || rp_embedded_archive(path, &source) < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    if (cli->json)
        cli->result = json_pack("{s:s, s:[]}", "archive", path, "members");
    return rp_archive_list(&source, &limits, on_member, cli, &stats, err);
}

/* The archives inside this program, which need no store to be used. */
static json_t *list_embedded(const struct rp_cli *cli)
{
    const char *name;
    json_t *list = json_array();
    for (int i = 0; (name = rp_embedded_archive_name(i)); i++) {
        struct rp_archive_source source = {0};
        char size[32];
        if (rp_embedded_archive(name, &source) < 0)
            continue;
        json_array_append_new(list, json_pack("{s:s, s:I}", "name", name, "bytes", (json_int_t)source.size));
        if (!cli->json)
            printf("embedded: %s, %s\n", name, size_text(size, source.size));
    }
    return list;
}

static int list_store(struct rp_cli *cli, const char *store, struct rp_err *err)
{
    struct rp_store_entry *entry = NULL;
    int n = 0, named;
    char size[32];
    if (rp_store_list(store, &entry, &n, err) < 0)
        return -1;
    RP_FREE char *where = rp_store_path(store, &named);
    RP_JSON *list = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I}", "sha256", entry[i].sha256, "directory", entry[i].dir, "files",
                                              (json_int_t)entry[i].files, "bytes", (json_int_t)entry[i].bytes));
        if (!cli->json)
            printf("%s  %4llu files  %10s\n", entry[i].sha256, (unsigned long long)entry[i].files, size_text(size, entry[i].bytes));
    }
    if (!cli->json && n == 0)
        printf("nothing is unpacked in %s yet\n", where);
    RP_JSON *inside = list_embedded(cli);
    if (cli->json)
        cli->result = json_pack("{s:s, s:O, s:O}", "store", where, "archives", list, "embedded", inside);
    rp_store_list_free(entry, n);
    return 0;
}

static int cmd_data_list(struct rp_cli *cli, struct rp_err *err)
{
    const struct store_opts *o = cli->opts;
    return cli->argc ? list_archive(cli, cli->argv[0], err) : list_store(cli, o->store, err);
}

const struct rp_command rp_cmd_data_list = {
    .name = "data list",
    .operands = "[ARCHIVE]",
    .max_operands = 1,
    .summary = "list what is unpacked and what is embedded, or the members of an archive",
    .details = "ARCHIVE is a file, or the name of an embedded archive.\n",
    .opts = store_opts,
    .opts_size = sizeof(struct store_opts),
    .run = cmd_data_list,
};

/* ---- data check ---- */

struct check_opts {
    const char *store;
    long seq, predictions, vocab, type_vocab;
};
#define AT(field) offsetof(struct check_opts, field)
static const struct rp_opt check_opts[] = {
    {.name = "seq-length", .type = RP_OPT_INT, .offset = AT(seq), .arg = "N", .lo = 1, .hi = 65536,
     .help = "expected length of input_ids; default that of the first record"},
    {.name = "max-predictions-per-seq", .type = RP_OPT_INT, .offset = AT(predictions), .arg = "N", .lo = 1, .hi = 65536,
     .help = "expected length of masked_lm_ids; default that of the first record"},
    {.name = "vocab-size", .type = RP_OPT_INT, .offset = AT(vocab), .arg = "N", .lo = 1, .hi = 100000000,
     .help = "every id must be below; default 30522"},
    {.name = "type-vocab-size", .type = RP_OPT_INT, .offset = AT(type_vocab), .arg = "N", .lo = 1, .hi = 65536,
     .help = "every segment id must be below; default 2"},
    {.name = "store", .type = RP_OPT_TEXT, .offset = AT(store), .arg = "DIR", .help = "the store to check when no PATH is given"},
    {0},
};
#undef AT


static void report_check(struct rp_cli *cli, const char *path, const struct rp_bert_limits *l, const struct rp_bert_check *c)
{
    char size[32];
    double n = (double)c->records;
    if (cli->json) {
        cli->result = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:s}", "path", path, "files", c->files, "bytes",
                                (json_int_t)c->bytes, "records", (json_int_t)c->records, "tokens", (json_int_t)c->tokens,
                                "predictions", (json_int_t)c->predictions, "full_records", (json_int_t)c->full, "random_next",
                                (json_int_t)c->random_next, "distinct_ids", (json_int_t)c->distinct_ids, "seq_length", l->seq,
                                "max_predictions_per_seq", l->predictions, "digest", c->digest);
        return;
    }
    printf("%-26s %d, %s\n%-26s %lld\n", "files", c->files, size_text(size, c->bytes), "records", (long long)c->records);
    printf("%-26s %d, %d predictions\n", "sequence length", l->seq, l->predictions);
    printf("%-26s %.1f a record, %.1f %% of the records full\n", "tokens", (double)c->tokens / n, 100 * (double)c->full / n);
    printf("%-26s %.1f a record\n", "masked predictions", (double)c->predictions / n);
    printf("%-26s %.1f %% of the records\n", "random next sentence", 100 * (double)c->random_next / n);
    printf("%-26s %lld\n%-26s %s\n", "different ids", (long long)c->distinct_ids, "digest", c->digest);
}

static int check_path(struct rp_cli *cli, const char *path, struct rp_err *err)
{
    const struct check_opts *o = cli->opts;
    struct rp_bert_limits l = {0};
    struct rp_bert_check c = {0};
    if (rp_bert_data_probe(path, &l, err) < 0)
        return -1;
    l.seq = o->seq ? (int)o->seq : l.seq;
    l.predictions = o->predictions ? (int)o->predictions : l.predictions;
    l.vocab = o->vocab ? (int)o->vocab : 30522;
    l.type_vocab = o->type_vocab ? (int)o->type_vocab : 2;
    struct rp_bert_data *d = rp_bert_data_open(path, &l, 0, 0, err);
    if (!d)
        return -1;
    int failed = rp_bert_data_check(d, &c, NULL, NULL, err) < 0;
    rp_bert_data_close(d);
    if (!failed)
        report_check(cli, path, &l, &c);
    return failed ? -1 : 0;
}

/* Every entry is looked at; the first failure decides the exit status. */
static int check_store(struct rp_cli *cli, const char *store, struct rp_err *err)
{
    struct rp_store_entry *entry = NULL;
    struct rp_err e = {0};
    int n = 0, failed = 0;
    if (rp_store_list(store, &entry, &n, err) < 0)
        return -1;
    RP_JSON *list = json_array();
    for (int i = 0; i < n; i++) {
        int bad = rp_store_check(entry[i].dir, &e) < 0;
        if (bad && !failed++)
            *err = e;
        json_array_append_new(list, json_pack("{s:s, s:b, s:s*}", "sha256", entry[i].sha256, "good", !bad, "message",
                                              bad ? e.msg : NULL));
        if (!cli->json)
            printf("%s  %s\n", entry[i].sha256, bad ? e.msg : "good");
    }
    if (!cli->json && n == 0) {
        int named;
        RP_FREE char *where = rp_store_path(store, &named);
        printf("nothing is unpacked in %s yet\n", where);
    }
    if (cli->json)
        cli->result = json_pack("{s:O}", "archives", list);
    rp_store_list_free(entry, n);
    return failed ? -1 : 0;
}

static int cmd_data_check(struct rp_cli *cli, struct rp_err *err)
{
    const struct check_opts *o = cli->opts;
    return cli->argc ? check_path(cli, cli->argv[0], err) : check_store(cli, o->store, err);
}

const struct rp_command rp_cmd_data_check = {
    .name = "data check",
    .operands = "[PATH]",
    .max_operands = 1,
    .summary = "read every record of a data set and say what is there; without PATH, hash the store again",
    .details = "PATH is a TFRecord file, a directory of them, or a quoted glob. A bad length, checksum, field, id or position is an "
               "error that names file, record and field, with exit status 4.\n",
    .opts = check_opts,
    .opts_size = sizeof(struct check_opts),
    .run = cmd_data_check,
};

/* ---- data unpack ---- */

static const struct rp_opt unpack_opts[] = {
    {.name = "sha256", .type = RP_OPT_TEXT, .offset = offsetof(struct store_opts, sha256), .arg = "HEX",
     .help = "refuse the archive unless this is its SHA-256"},
    {.name = "store", .type = RP_OPT_TEXT, .offset = offsetof(struct store_opts, store), .arg = "DIR",
     .help = "where archives are unpacked; default $REPRO_STORE or the cache directory"},
    {0},
};

static int cmd_data_unpack(struct rp_cli *cli, struct rp_err *err)
{
    const struct store_opts *o = cli->opts;
    RP_FREE char *dir = NULL;
    char hex[65];
    if (o->sha256 && !rp_is_sha256(o->sha256))
        return rp_fail(err, RP_USAGE, "--sha256: '%s' is no SHA-256: expected 64 hexadecimal digits in lower case", o->sha256);
    if (rp_store_unpack(cli->argv[0], o->sha256, o->store, &dir, hex, err) < 0)
        return -1;
    if (cli->json)
        cli->result = json_pack("{s:s, s:s}", "sha256", hex, "directory", dir);
    else
        printf("%s\n", dir);
    return 0;
}

const struct rp_command rp_cmd_data_unpack = {
    .name = "data unpack",
    .operands = "ARCHIVE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "unpack an archive into the store and print the directory",
    .details = "ARCHIVE is a file, or the name of an embedded archive: tar or zip, plain or with gz, xz, zst, lz4 or bz2. It is hashed "
               "first, unpacked within limits, and renamed into place; the directory is named after its SHA-256.\n",
    .opts = unpack_opts,
    .opts_size = sizeof(struct store_opts),
    .run = cmd_data_unpack,
};

/* ---- data make ---- */

struct make_opts {
    long sequences, seq, predictions, vocab, shards, seed;
    int force;
};
#define AT(field) offsetof(struct make_opts, field)
static const struct rp_opt make_opts[] = {
    {.name = "sequences", .letter = 'n', .type = RP_OPT_INT, .offset = AT(sequences), .arg = "N", .lo = 1, .hi = 1000000000,
     .help = "how many; default 2048"},
    {.name = "seq-length", .type = RP_OPT_INT, .offset = AT(seq), .arg = "N", .lo = 1, .hi = 65536, .help = "tokens; default 128"},
    {.name = "max-predictions-per-seq", .type = RP_OPT_INT, .offset = AT(predictions), .arg = "N", .lo = 1, .hi = 65536,
     .help = "masked positions at most; default 20"},
    {.name = "vocab-size", .type = RP_OPT_INT, .offset = AT(vocab), .arg = "N", .lo = 1, .hi = 100000000,
     .help = "ids are below; default 30522"},
    {.name = "shards", .type = RP_OPT_INT, .offset = AT(shards), .arg = "N", .lo = 1, .hi = 100000, .help = "files; default 2"},
    {.name = "seed", .type = RP_OPT_INT, .offset = AT(seed), .arg = "N", .lo = 1, .hi = 9007199254740991,
     .help = "another seed makes another corpus; default 1"},
    {.name = "force", .letter = 'f', .type = RP_OPT_FLAG, .offset = AT(force), .help = "overwrite files that exist"},
    {0},
};
#undef AT

static int is_archive_name(const char *path)
{
    const char *base = strrchr(path, '/');
    const char *tar = strstr(base ? base : path, ".tar");
    return tar && (tar[4] == 0 || tar[4] == '.');
}

/* Names that nobody gives a directory. */
static int is_foreign_archive_name(const char *path)
{
    static const char *const endings[] = {".zip", ".tgz", ".txz", ".tzst", ".tbz2", ".7z", ".gz", ".zst", ".xz", ".tfrecord", NULL};
    for (const char *const *e = endings; *e; e++)
        if (strlen(path) > strlen(*e) && strcmp(path + strlen(path) - strlen(*e), *e) == 0)
            return 1;
    return 0;
}

static int cmd_data_make(struct rp_cli *cli, struct rp_err *err)
{
    const struct make_opts *o = cli->opts;
    const char *path = cli->argv[1];
    struct rp_corpus_opts c = RP_CORPUS_DEFAULTS;
    if (strcmp(cli->argv[0], "bert") != 0)
        return rp_fail(err, RP_USAGE, "no sample data of the kind '%s' can be made, only 'bert'", cli->argv[0]);
    c.sequences = o->sequences ? o->sequences : c.sequences;
    c.seq = o->seq ? (int)o->seq : c.seq;
    c.predictions = o->predictions ? (int)o->predictions : c.predictions;
    c.vocab = o->vocab ? (int)o->vocab : c.vocab;
    c.shards = o->shards ? (int)o->shards : c.shards;
    c.seed = o->seed ? (uint64_t)o->seed : c.seed;
    int archive = is_archive_name(path);
    if (!archive && is_foreign_archive_name(path))
        return rp_fail(err, RP_USAGE, "'%s' looks like an archive of a form that is not written; try .tar.zst, or corpus/ for a directory",
                       path);
    if (rp_corpus_check(&c, err) < 0 ||
        (archive ? rp_corpus_write_archive(&c, path, o->force, err) : rp_corpus_write(&c, path, o->force, err)) < 0)
        return -1;
    if (cli->json)
        cli->result = json_pack("{s:s, s:I, s:i}", "path", path, "sequences", (json_int_t)c.sequences, "shards", c.shards);
    else
        printf("%s\n", path);
    return 0;
}

const struct rp_command rp_cmd_data_make = {
    .name = "data make",
    .operands = "bert PATH",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "write a made-up corpus that a model can learn, the same bytes on every machine",
    .details = "PATH is a directory for the TFRecord files, or an archive when its name ends in .tar, .tar.gz, .tar.xz, .tar.zst, "
               ".tar.bz2 or .tar.lz4.\n"
               "\n"
               "Examples:\n"
               "  repro data make bert corpus/ --sequences 10000 --seq-length 512\n"
               "  repro run bert_tiny_fp32 --set data.path=corpus/\n",
    .opts = make_opts,
    .opts_size = sizeof(struct make_opts),
    .run = cmd_data_make,
};

const struct rp_command rp_cmd_data = {
    .name = "data",
    .operands = "",
    .summary = "list, check, unpack and make training data",
};
