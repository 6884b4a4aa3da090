/* `repro data make`: synthetic corpora, and texts as tokens. */
#include "cli/opts.h"
#include "data/dataset.h"
#include "data/synthetic/folder.h"
#include "data/synthetic/make.h"
#include "data/text/bpe.h"

#include <stdio.h>
#include <string.h>

struct make_opts {
    struct rp_make_opts data;
    const char *vocab, *merges, *tokenizer;
    int skip_bad, force;
};
#define AT(field) offsetof(struct make_opts, field)
static const struct rp_opt make_opts[] = {
#define OPTION(field, name, letter, def, lo, hi, help) RP_OPTION_INT(data.field, name, letter, lo, hi, help),
#include "data/synthetic/options.def"
#undef OPTION
    RP_OPTION_TEXT(vocab, "vocab", 0, "FILE", "of texts: GPT-2's vocabulary, vocab.json (encoder.json)"),
    RP_OPTION_TEXT(merges, "merges", 0, "FILE", "of texts: its merges, merges.txt (vocab.bpe)"),
    RP_OPTION_TEXT(tokenizer, "tokenizer", 0, "FILE", "of texts: both in one, tokenizer.json"),
    RP_OPTION_FLAG(skip_bad, "skip-bad", 0, "of .jsonl texts: leave out lines that cannot be read, and count them"),
    RP_OPT_FORCE(force),
    {0},
};
#undef AT

static int is_archive_name(const char *path)
{
    const char *base = strrchr(path, '/');
    const char *tar = strstr(base ? base : path, ".tar");
    return tar && (tar[4] == 0 || tar[4] == '.');
}

/* Names of other archives and files, hardly meant as a directory. */
static int is_foreign_archive_name(const char *path, const char *ending)
{
    const char *const endings[] = {".zip", ".tgz", ".txz", ".tzst", ".tbz2", ".7z", ".gz", ".zst", ".xz", ending, NULL};
    for (const char *const *e = endings; *e; e++)
        if (**e && strlen(path) > strlen(*e) && strcmp(path + strlen(path) - strlen(*e), *e) == 0)
            return 1;
    return 0;
}

static const struct rp_generator *find_generator(const char *name, struct rp_err *err)
{
    const struct rp_generator *g = rp_generator_find(name);
    RP_BUF names = {0};
    for (int i = 0; !g && rp_generators[i]; i++) {
        rp_buf_printf(&names, "%s%s", i ? ", " : "", rp_generators[i]->name);
        rp_fail(err, RP_USAGE, "unknown generator '%s'; expected one of %s", name, rp_buf_text(&names));
    }
    return g;
}

static struct rp_bpe *load_vocabulary(const struct make_opts *o, struct rp_err *err)
{
    if (o->tokenizer ? o->vocab || o->merges : !o->vocab || !o->merges)
        return rp_fail_null(err, RP_USAGE,
                            "texts become tokens of a vocabulary: give either --vocab and --merges, or --tokenizer");
    return o->tokenizer ? rp_bpe_load_tokenizer(o->tokenizer, err) : rp_bpe_load(o->vocab, o->merges, err);
}

/* The documents of all texts; they stay in memory until the files are written. */
static int read_texts(const struct make_opts *o, const char **text, int n, struct rp_token_docs *docs,
                      struct rp_text_skipped *skipped, struct rp_err *err)
{
    struct rp_bpe *b = load_vocabulary(o, err);
    int failed = !b;
    if (b) {
        docs->eod = rp_bpe_eod(b);
        docs->vocabulary = rp_bpe_vocabulary(b);
    }
    for (int i = 0; i < n && !failed; i++)
        failed = rp_text_documents(b, text[i], docs, o->skip_bad ? skipped : NULL, err) < 0;
    rp_bpe_free(b);
    if (!failed && docs->n == 0 && skipped->lines)
        failed = rp_fail(err, RP_MALFORMED, "none of the lines can be read: %s", skipped->first.msg);
    if (!failed && docs->n == 0)
        failed = rp_fail(err, RP_MALFORMED, "'%s'%s: expected text, found no document", text[0],
                         n > 1 ? " and the others" : "");
    return failed ? -1 : 0;
}

static int write_data(const struct rp_generator *g, const struct rp_make_opts *made, const char *path, int force,
                      struct rp_err *err)
{
    int archive = is_archive_name(path);
    if (!archive && is_foreign_archive_name(path, g->format->endings[0]))
        return rp_fail(err, RP_USAGE, "'%s' is not a supported archive name: use .tar.zst, or corpus/ for a directory",
                       path);
    return archive ? rp_make_archive(g, made, path, force, err) : rp_make_directory(g, made, path, force, err);
}

static int make_from_texts(struct rp_cli *cli, const struct rp_generator *of_format, struct rp_err *err)
{
    const struct make_opts *o = cli->opts;
    const char *path = cli->argv[1];
    struct rp_make_opts made = o->data;
    RP_TOKEN_DOCS docs = {0};
    struct rp_text_skipped skipped = {0};
    struct rp_generator g = {.name = "text", .format = of_format->format, .documents = &docs,
                             .defaults = {.shards = 1, .token_bytes = of_format->defaults.token_bytes}};
    if (!g.format->make)
        return rp_fail(err, RP_USAGE, "texts do not become data.format %s; choose llmc, tokens or megatron",
                       g.format->name);
    if (rp_make_options(&made, &g, err) < 0 || read_texts(o, cli->argv + 2, cli->argc - 2, &docs, &skipped, err) < 0)
        return -1;
    made.sequences = docs.n;
    if (made.shards > docs.n)
        return rp_fail(err, RP_USAGE, "--shards %ld is out of range 1..%lld, the number of documents", made.shards,
                       (long long)docs.n);
    if (write_data(&g, &made, path, o->force, err) < 0)
        return -1;
    if (skipped.lines)
        fprintf(stderr, "repro: note: %lld line%s left out; the first: %s\n", (long long)skipped.lines,
                skipped.lines > 1 ? "s" : "", skipped.first.msg);
    rp_cli_return(cli,
                  json_pack("{s:o, s:s, s:I, s:I, s:I, s:I}", "path", rp_cli_path(path), "format", g.format->name,
                            "documents", (json_int_t)docs.n, "skipped", (json_int_t)skipped.lines, "tokens",
                            (json_int_t)docs.ids + docs.n, "shards", (json_int_t)made.shards),
                  "");
    return 0;
}

static int make_from_images(struct rp_cli *cli, struct rp_err *err)
{
    const struct make_opts *o = cli->opts;
    const char *path = cli->argv[1];
    struct rp_folder_made made = {.shards = o->data.shards};
    struct rp_make_opts others = o->data;
    const struct rp_generator none = {.name = "imagenet_tfrecord", .defaults = {.shards = 1}};
    if (cli->argc > 3)
        return rp_fail(err, RP_USAGE, "expected one folder of class folders after '%s'", path);
    if (o->vocab || o->merges || o->tokenizer || o->skip_bad)
        return rp_fail(err, RP_USAGE, "%s is for texts", o->skip_bad ? "--skip-bad" : "a vocabulary");
    if (is_archive_name(path))
        return rp_fail(err, RP_USAGE, "'%s': images from a folder are written into a directory", path);
    if (rp_make_options(&others, &none, err) < 0 || rp_make_from_folder(cli->argv[2], path, o->force, &made, err) < 0)
        return -1;
    rp_cli_return(cli,
                  json_pack("{s:o, s:s, s:I, s:I, s:I}", "path", rp_cli_path(path), "format", "imagenet_tfrecord",
                            "images", (json_int_t)made.images, "classes", (json_int_t)made.classes, "shards",
                            (json_int_t)made.shards),
                  "");
    return 0;
}

static int make_synthetic(struct rp_cli *cli, const struct rp_generator *g, struct rp_err *err)
{
    const struct make_opts *o = cli->opts;
    struct rp_make_opts made = o->data;
    if (o->vocab || o->merges || o->tokenizer || o->skip_bad)
        return rp_fail(err, RP_USAGE, "%s is for texts: name them after '%s', or leave it out for a synthetic corpus",
                       o->skip_bad ? "--skip-bad" : "a vocabulary", cli->argv[1]);
    if (rp_make_options(&made, g, err) < 0 || write_data(g, &made, cli->argv[1], o->force, err) < 0)
        return -1;
    rp_cli_return(cli,
                  json_pack("{s:o, s:I, s:I}", "path", rp_cli_path(cli->argv[1]), "sequences",
                            (json_int_t)made.sequences, "shards", (json_int_t)made.shards),
                  "");
    return 0;
}

static int cmd_data_make(struct rp_cli *cli, struct rp_err *err)
{
    const struct rp_generator *g = find_generator(cli->argv[0], err);
    if (!g)
        return -1;
    const int failed = cli->argc < 3                                    ? make_synthetic(cli, g, err)
                       : g->format == &rp_data_format_imagenet_tfrecord ? make_from_images(cli, err)
                                                                        : make_from_texts(cli, g, err);
    if (failed < 0)
        return -1;
    rp_cli_print_path(cli, cli->argv[1]);
    return 0;
}

const struct rp_command rp_cmd_data_make = {
    .name = "data make",
    .operands = "FORMAT PATH [TEXT...]",
    .summary = "write texts as tokens, or a synthetic corpus that a model can learn",
    .details = "FORMAT is a data format; bert and gpt are short for bert_tfrecord and llmc. PATH is a directory for "
               "the files, or an archive if its name ends in .tar, .tar.gz, .tar.xz, .tar.zst, .tar.bz2 or .tar.lz4. "
               "The same options make the same files on every machine.\n\n"
               "TEXT is UTF-8. Every line of a .jsonl or .json file is an object whose \"text\" is a document, as "
               "Megatron-LM's preprocess_data.py reads them: NaN, large integers and repeated keys are fine, and a "
               "line that Python's json.loads refuses, or whose \"text\" is not one, ends the command, or with "
               "--skip-bad is left out and counted. Any other file is one document. They become the ids that GPT-2's "
               "tokenizer gives them with the vocabulary that you name; <|endoftext|> separates documents: before each "
               "in llmc, as llm.c does, after each in tokens and megatron. In a text it is not special. All ids are "
               "held in memory.\n"
               "\n"
               "For imagenet_tfrecord TEXT is one folder of class folders with JPEG files; their bytes are kept. "
               "Without --shards each file gets about 128 MiB.\n"
               "\n"
               "Without TEXT the corpus is synthetic: words with the statistics of language, which stand for no text; "
               "of imagenet_tfrecord (images is short for it) drawn pictures of 8 classes, as JPEG files of all common "
               "forms.\n"
               "\n"
               "Examples:\n"
               "  repro data make megatron corpus/ pile.jsonl --vocab vocab.json --merges merges.txt\n"
               "  repro run gpt2_124m_fp32 --set data.format=megatron --set data.path=corpus/\n"
               "  repro data make bert corpus/ --sequences 10000 --seq-length 512\n"
               "  repro run bert_tiny_fp32 --set data.path=corpus/\n"
               "  repro data make imagenet_tfrecord records/ imagenet/train/\n",
    .opts = make_opts,
    .opts_size = sizeof(struct make_opts),
    .run = cmd_data_make,
};
