/* Any bytes as a TFRecord file: refused with one line, or read, and then every value is in its range. The bytes are
 * also given to the tf.Example parser alone, and framed with good checksums, because few inputs get past the checksums
 * otherwise. */
#include "data/tfrecord.h"
#include "tests/fuzz/bert_samples.h"

#include <zlib.h>

static void read_packed(const struct rp_buf *file)
{
    uLongf size = compressBound(file->size);
    RP_FREE unsigned char *packed = rp_alloc(size);
    must(compress2(packed, &size, (const unsigned char *)file->data, file->size, 1) == Z_OK);
    read_all("bert_tfrecord", packed, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    RP_BUF framed = {0}, part = {0};
    if (size > 65536)
        return 0;
    read_all("bert_tfrecord", data, size);
    rp_tfrecord_append(&framed, data, size);
    read_all("bert_tfrecord", framed.data, framed.size);
    read_packed(&framed);
    const uint64_t length = size;
    rp_buf_add(&part, &length, sizeof length);
    rp_buf_add(&part, data, size);
    read_all("bert_ofrecord", part.data, part.size);
    return 0;
}
