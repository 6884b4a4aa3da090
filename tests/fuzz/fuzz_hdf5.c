/* Any bytes as an HDF5 file of BERT's samples: refused with one line, or read, and then every value of every sample is
 * in its range. */
#include "tests/fuzz/bert_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 65536)
        read_all("bert_hdf5", data, size);
    return 0;
}
