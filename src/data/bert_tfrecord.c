/* Samples of BERT pre-training as messages: TFRecord files of tf.Example, as create_pretraining_data.py writes them,
 * and OneFlow's OFRecord part files, as its tools make of those (int32 lists, float weights). */
#include "data/bert_set.h"
#include "data/tfrecord.h"

struct bert_messages {
    struct rp_bert_set set;
    struct rp_tfrecord_set records;
};

static struct bert_messages *messages(struct rp_bert_set *s)
{
    return (struct bert_messages *)s;
}

static int open_messages(struct rp_bert_set *s, const struct rp_framing *framing, const char *path, struct rp_err *err)
{
    struct rp_tfrecord_set *records = &messages(s)->records;
    records->files.last = -1; /* closed also if there are none */
    if (rp_tfrecord_set_init(records, s->base.format, framing, path, err) < 0)
        return -1;
    s->files = &records->files;
    s->count = records->count;
    return 0;
}

static int open_tfrecord(struct rp_bert_set *s, const char *path, struct rp_err *err)
{
    return open_messages(s, &rp_framing_tfrecord, path, err);
}

static int open_ofrecord(struct rp_bert_set *s, const char *path, struct rp_err *err)
{
    return open_messages(s, &rp_framing_ofrecord, path, err);
}

static void close_messages(struct rp_bert_set *s)
{
    rp_tfrecord_set_fini(&messages(s)->records);
}

static int read_tfrecord(struct rp_bert_set *s, int64_t record, struct rp_err *err)
{
    const unsigned char *data;
    size_t size;
    return rp_tfrecord_set_record(&messages(s)->records, record, &data, &size, err) < 0
               ? -1
               : rp_example_parse(data, size, s->field, RP_BERT_FIELDS, err);
}

static int read_ofrecord(struct rp_bert_set *s, int64_t record, struct rp_err *err)
{
    const unsigned char *data;
    size_t size;
    return rp_tfrecord_set_record(&messages(s)->records, record, &data, &size, err) < 0
               ? -1
               : rp_ofrecord_parse(data, size, s->field, RP_BERT_FIELDS, err);
}

static int place_message(const struct rp_bert_set *s, int64_t record, struct rp_err *err)
{
    return rp_tfrecord_set_bad(&((const struct bert_messages *)s)->records, record, err);
}

static const struct rp_bert_reader tfrecord = {sizeof(struct bert_messages), open_tfrecord, close_messages,
                                               read_tfrecord, place_message};
static const struct rp_bert_reader ofrecord = {sizeof(struct bert_messages), open_ofrecord, close_messages,
                                               read_ofrecord, place_message};

static struct rp_dataset *tfrecord_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    return rp_bert_open(&rp_data_format_bert_tfrecord, &tfrecord, path, field, n, o, err);
}

static struct rp_dataset *ofrecord_open(const char *path, const struct rp_sample_field *field, int n,
                                        const struct rp_data_opts *o, struct rp_err *err)
{
    return rp_bert_open(&rp_data_format_bert_ofrecord, &ofrecord, path, field, n, o, err);
}

static int tfrecord_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                          struct rp_err *err)
{
    return rp_bert_probe(&rp_data_format_bert_tfrecord, path, o, field, n, err);
}

static int ofrecord_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                          struct rp_err *err)
{
    return rp_bert_probe(&rp_data_format_bert_ofrecord, path, o, field, n, err);
}

const struct rp_data_format rp_data_format_bert_tfrecord = {
    .name = "bert_tfrecord",
    .summary = "BERT pre-training: TFRecord files of tf.Example",
    .in_name = RP_TFRECORD_IN_NAME,
    .endings = {RP_TFRECORD_IN_NAME},
    .probe = tfrecord_probe,
    .open = tfrecord_open,
    .close = rp_bert_close,
    .count = rp_bert_count,
    .get = rp_bert_get,
    .check = rp_bert_check,
};

const struct rp_data_format rp_data_format_bert_ofrecord = {
    .name = "bert_ofrecord",
    .summary = "BERT pre-training: OneFlow's OFRecord part files",
    .in_name = RP_OFRECORD_IN_NAME,
    .endings = {""},
    .probe = ofrecord_probe,
    .open = ofrecord_open,
    .close = rp_bert_close,
    .count = rp_bert_count,
    .get = rp_bert_get,
    .check = rp_bert_check,
};
