/* `repro data`: archives and samples, without training on them. */
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "data/archive.h"
#include "data/dataset.h"
#include "data/embedded_data.h"
#include "data/marker.h"
#include "data/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- data list ---- */

struct store_opts {
    const char *store, *sha256;
};
#define AT(field) offsetof(struct store_opts, field)
static const struct rp_opt store_opts[] = {RP_OPT_STORE(store), {0}};
static const struct rp_opt unpack_opts[] = {
    RP_OPTION_TEXT(sha256, "sha256", 0, "HEX", "refuse the archive unless this is its SHA-256"),
    RP_OPT_STORE(store),
    {0}};
#undef AT

static int on_member(void *arg, const char *name, char type, uint64_t size)
{
    const char *kind = type == 'd' ? "directory" : type == 'l' ? "link" : "file";
    json_array_append_new(
        arg, json_pack("{s:o, s:s, s:I}", "name", rp_cli_path(name), "type", kind, "size", (json_int_t)size));
    return 0;
}

static int list_archive(struct rp_cli *cli, const char *path, struct rp_err *err)
{
    struct rp_archive_limits limits = RP_ARCHIVE_LIMITS;
    struct rp_archive_source source;
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (size >= 0)
        source = (struct rp_archive_source){.name = path, .fd = fd, .size = (uint64_t)size};
    else if (errno != ENOENT || rp_embedded_archive(path, &source) < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    json_t *members = json_array();
    const int failed = rp_archive_list(&source, &limits, on_member, members, err) < 0;
    rp_cli_return(cli, json_pack("{s:o, s:o}", "archive", rp_cli_path(path), "members", members),
                  "[/members:{/size t 12}  {/type t -9}  {/name p}\n]");
    return failed ? -1 : 0;
}

/* The archives inside this program, usable without a store. */
static json_t *list_embedded(void)
{
    const char *name;
    json_t *list = json_array();
    for (int i = 0; (name = rp_embedded_archive_name(i)); i++) {
        struct rp_archive_source source = {0};
        if (rp_embedded_archive(name, &source) == 0)
            json_array_append_new(list, json_pack("{s:s, s:I}", "name", name, "bytes", (json_int_t)source.size));
    }
    return list;
}

#define EMPTY_TEXT "[!/archives:the store {/store p} is empty\n]"

static int list_store(struct rp_cli *cli, const char *store, struct rp_err *err)
{
    struct rp_store_entry *entry = NULL;
    int n = 0;
    if (rp_store_list(store, &entry, &n, err) < 0)
        return -1;
    RP_FREE char *where = rp_store_path(store, NULL);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:I, s:I}", "sha256", entry[i].sha256, "directory",
                                              rp_cli_path(entry[i].dir), "files", (json_int_t)entry[i].files, "bytes",
                                              (json_int_t)entry[i].bytes));
    rp_store_list_free(entry, n);
    rp_cli_return(cli,
                  json_pack("{s:o, s:o, s:o}", "store", rp_cli_path(where), "archives", list, "embedded",
                            list_embedded()),
                  "[/archives:{/sha256 t}  {/files t 4} files  {/bytes b 10}\n]" EMPTY_TEXT
                  "[/embedded:embedded: {/name t}, {/bytes b}\n]");
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
    .summary = "list what is unpacked and what is embedded, or the members of an archive",
    .details = "ARCHIVE is a file, or the name of an embedded archive.\n"
               "\n"
               "Examples:\n"
               "  repro data list\n"
               "  repro data list bert_sample.tar.zst\n",
    .opts = store_opts,
    .opts_size = sizeof(struct store_opts),
    .run = cmd_data_list,
};

/* ---- data check ---- */

struct check_opts {
    const char *store, *format;
    struct rp_opt_list below;
    const char *label_base;
    long seq_length, token_bytes, threads;
    int skip_damaged;
};
#define AT(field) offsetof(struct check_opts, field)
static const struct rp_opt check_opts[] = {
    RP_OPTION_TEXT(format, "format", 0, "NAME", "data.format of the files; default bert_tfrecord"),
    RP_OPTION_LIST(below, "below", "FIELD=N", "every value of that field must be below N; default as in public data"),
    RP_OPTION_INT(seq_length, "seq-length", 0, 1, 65535,
                  "token files: tokens of a sample, of which the file must have one more; default 1024"),
    RP_OPTION_INT(token_bytes, "token-bytes", 0, 2, 4, "format tokens: bytes of a token, 2 or 4; default 2"),
    RP_OPTION_CHOICE(label_base, "label-base", 0, "0|1",
                     "images: label of the first class; default 1 of imagenet_tfrecord, 0 of the others"),
    RP_OPTION_FLAG(skip_damaged, "skip-damaged", 0, "images: count damaged ones instead of ending at the first"),
    RP_OPTION_INT(threads, "threads", 0, 1, 1024, "images: threads that decode; default all CPUs"),
    RP_OPT_STORE(store),
    {0},
};
#undef AT

static void add_name(struct rp_buf *names, const char *name)
{
    rp_buf_printf(names, "%s%s", names->size ? ", " : "", name);
}

static const struct rp_data_format *find_format(const char *name, struct rp_err *err)
{
    const struct rp_data_format *format = name ? rp_data_format_find(name) : rp_data_formats[0];
    RP_BUF names = {0};
    if (format)
        return format;
    for (int i = 0; rp_data_formats[i]; i++)
        add_name(&names, rp_data_formats[i]->name);
    return rp_fail_null(err, RP_USAGE, "unknown data format '%s'; expected one of %s", name, rp_buf_text(&names));
}

/* FIELD=N */
static int set_range(struct rp_sample_field *field, int n, const char *text, struct rp_err *err)
{
    const char *value = strchr(text, '=');
    size_t length = value ? (size_t)(value - text) : 0;
    char *end = NULL;
    long below = value ? strtol(value + 1, &end, 10) : 0;
    RP_BUF names = {0};
    for (int i = 0; i < n; i++) {
        if (below > 0 && !*end && strlen(field[i].name) == length && memcmp(field[i].name, text, length) == 0) {
            field[i].below = below;
            return 0;
        }
        add_name(&names, field[i].name);
    }
    return rp_fail(err, RP_USAGE,
                   "option '--below': '%s' is not FIELD=N with a positive number and one of the fields %s", text,
                   rp_buf_text(&names));
}

static const char check_text[] =
    "files                      {/files t}, {/bytes b}\n"
    "records                    {/records t}"
    "[/facts:[/label:\n{/label t -26} ][!/label:, ][/of:{/share d1} {/of t}][!/of:{/value t}][/unit: {/unit t}]]"
    "\ndigest                     {/digest t}\n";

static json_t *check_json(const char *path, const struct rp_data_format *format, const struct rp_data_check *c)
{
    static const char *const of[] = {[RP_FACT_PER_RECORD] = "a record",
                                     [RP_FACT_SHARE_OF_RECORDS] = "% of the records"};
    json_t *facts = json_array(), *j;
    j = json_pack("{s:o, s:s, s:i, s:I, s:I, s:s, s:o}", "path", rp_cli_path(path), "format", format->name, "files",
                  c->files, "bytes", (json_int_t)c->bytes, "records", (json_int_t)c->records, "digest", c->digest,
                  "facts", facts);
    for (const struct rp_data_fact *f = c->fact; f < c->fact + c->facts; f++) {
        const double times = f->form == RP_FACT_SHARE_OF_RECORDS ? 100 : 1;
        json_t *fact = json_pack("{s:s*, s:I, s:s*}", "label", f->label, "value", (json_int_t)f->value, "unit",
                                 f->unit);
        if (f->form != RP_FACT_TOTAL)
            json_object_update_new(fact, json_pack("{s:f, s:s}", "share",
                                                   times * (double)f->value / (double)c->records, "of", of[f->form]));
        json_array_append_new(facts, fact);
        json_object_set_new(j, f->name, json_integer(f->value));
    }
    return j;
}

static int check_path(struct rp_cli *cli, const char *path, struct rp_err *err)
{
    const struct check_opts *o = cli->opts;
    const struct rp_data_format *format = find_format(o->format, err);
    struct rp_sample_field field[RP_SAMPLE_FIELDS_MAX];
    struct rp_data_check c;
    int n = 0;
    const struct rp_data_opts order = {.seq_length = o->seq_length,
                                       .token_bytes = (int)o->token_bytes,
                                       .image = {.label_base = o->label_base ? 1 + (*o->label_base == '1') : 0,
                                                 .fancy = 1,
                                                 .skip_damaged = o->skip_damaged,
                                                 .threads = (int)o->threads}};
    if (!format)
        return -1;
    if (format->probe(path, &order, field, &n, err) < 0)
        return o->format || err->code == RP_IO ? -1 : rp_wrap(err, "read as %s, as no --format is given", format->name);
    for (int i = 0; i < o->below.n; i++)
        if (set_range(field, n, o->below.item[i], err) < 0)
            return -1;
    struct rp_dataset *d = format->open(path, field, n, &order, err);
    int failed = !d || format->check(d, &c, NULL, NULL, err) < 0;
    format->close(d);
    if (!failed)
        rp_cli_return(cli, check_json(path, format, &c), check_text);
    return failed ? -1 : 0;
}

/* Checks every entry; the first failure is the exit status. */
static int check_store(struct rp_cli *cli, const char *store, struct rp_err *err)
{
    struct rp_store_entry *entry = NULL;
    struct rp_err e = {0};
    int n = 0, failed = 0;
    if (rp_store_list(store, &entry, &n, err) < 0)
        return -1;
    RP_FREE char *where = rp_store_path(store, NULL);
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        int bad = rp_marker_check(entry[i].dir, &e) < 0;
        if (bad && !failed++)
            *err = e;
        json_array_append_new(list, json_pack("{s:s, s:b, s:o*}", "sha256", entry[i].sha256, "good", !bad, "message",
                                              bad ? rp_cli_path(e.msg) : NULL));
    }
    rp_store_list_free(entry, n);
    rp_cli_return(cli, json_pack("{s:o, s:o}", "store", rp_cli_path(where), "archives", list),
                  "[/archives:{/sha256 t}  [/good:good][!/good:{/message p}]\n]" EMPTY_TEXT);
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
    .summary = "read and describe every record of a data set, or hash the store again",
    .details = "PATH is a file, a directory of files, or a quoted glob; of Megatron-LM's pairs also NAME without .bin "
               "and .idx. A bad length, checksum, index, field or value is an error that names file and place, with "
               "exit status 4. Ids of formats without a vocabulary of their own (tokens, megatron) are checked with "
               "--below tokens=N. Images are decoded whole; --below label=N gives the number of classes, 1000 by "
               "default.\n"
               "\n"
               "JPEG images may be gray, RGB, CMYK and progressive, from 1x1 to 2^26 pixels. An EXIF orientation is "
               "counted and ignored, as by torchvision and TensorFlow; OpenCV and newer releases of DALI turn such "
               "images. Truncated and damaged images are refused by name, also larger ones, more than 100 scans, 12 "
               "bits per sample, lossless and arithmetic coding, and other formats than JPEG.\n"
               "\n"
               "TFRecord files that gzip or zlib compressed are unpacked once when they are opened, and up to 1 MiB "
               "again for a sample in random order; unpack them for more speed. So are chunks of HDF5, of which 128 "
               "MiB are kept.\n"
               "\n"
               "Examples:\n"
               "  repro data check\n"
               "  repro data check /data/imagenet --format imagenet_tfrecord\n"
               "  repro data check /data/hdf5_lower_case --format bert_hdf5\n"
               "  repro data check 'tokens/*.bin' --format tokens --below tokens=50257\n",
    .opts = check_opts,
    .opts_size = sizeof(struct check_opts),
    .run = cmd_data_check,
};

/* ---- data unpack ---- */

static int cmd_data_unpack(struct rp_cli *cli, struct rp_err *err)
{
    const struct store_opts *o = cli->opts;
    RP_FREE char *dir = NULL;
    char hex[65];
    if (o->sha256 && !rp_is_sha256(o->sha256))
        return rp_fail(err, RP_USAGE, "--sha256: '%s' is not a SHA-256: expected 64 lower-case hexadecimal digits",
                       o->sha256);
    if (rp_store_unpack(cli->argv[0], o->sha256, o->store, &dir, hex, err) < 0)
        return -1;
    rp_cli_return(cli, json_pack("{s:s, s:o}", "sha256", hex, "directory", rp_cli_path(dir)), "");
    rp_cli_print_path(cli, dir);
    return 0;
}

const struct rp_command rp_cmd_data_unpack = {
    .name = "data unpack",
    .operands = "ARCHIVE",
    .summary = "unpack an archive into the store and print the directory",
    .details = "ARCHIVE is a file, or the name of an embedded archive: tar or zip, plain or with gz, xz, zst, lz4 or "
               "bz2. It is hashed first, unpacked within limits, and renamed into place; the directory is named after "
               "its SHA-256.\n"
               "\n"
               "Examples:\n"
               "  repro data unpack bert_sample.tar.zst\n",
    .opts = unpack_opts,
    .opts_size = sizeof(struct store_opts),
    .run = cmd_data_unpack,
};

const struct rp_command rp_cmd_data = {
    .name = "data",
    .operands = "",
    .summary = "list, check, unpack, make and time training data",
    .details = "Examples:\n"
               "  repro data list\n"
               "  repro data make bert corpus\n"
               "  repro data check corpus --format bert_tfrecord\n",
};
