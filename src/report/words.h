/* How figures are computed, in words: no document of a bundle has them.
 *
 * What:    texts that reports and pages have next to figures.
 * Extend:  a text is a macro; without characters that Markdown, HTML or a template takes for markup. What it says is
 *          computed in run/derive*.c and run/agreement.c: if you change one, change the other.
 */
#pragma once

#define RP_WORDS_ESTIMATOR "median over repeats of samples / window seconds"
#define RP_WORDS_WINDOW                                                                                                \
    "start of the first timed step of a repeat to the end of its last, with the loading of samples and without state " \
    "roots between steps"
#define RP_WORDS_BOOTSTRAP                                                                                             \
    "percentile bootstrap: repeats, where there are several, and in each the step cycles (start to next start, "       \
    "without "                                                                                                         \
    "state roots) are resampled with replacement, by SplitMix64 seeded with the first 8 bytes of records_sha256; the " \
    "estimator is applied to each resample"
#define RP_WORDS_AGREEMENT                                                                                             \
    "percentile bootstrap of replication / original: the estimator of resamples of each run as for its own interval, " \
    "seeded with the first 8 bytes of its records_sha256"
#define RP_WORDS_DEVICE_SHARE                                                                                          \
    "device_s / seconds of all windows; device_s: from the start of the first operation of each timed step to the "    \
    "end "                                                                                                             \
    "of its last, by the device's own clock, idle gaps included"
#define RP_WORDS_TELEMETRY "device samples from the start of the first timed step to the end of the last"
#define RP_WORDS_ENERGY                                                                                                \
    "sum over ranks of (mean of power_w * seconds from the start of the first timed step to the end of the last); "    \
    "per training sample: / samples that all ranks trained there"

#define RP_WORDS_GEMM "2 * m * n * k * calls / shortest ns"
#define RP_WORDS_COPY "2 * bytes * calls / shortest ns: each byte is read and written"
#define RP_WORDS_HOST_TO_DEVICE "bytes * calls / shortest ns"
#define RP_WORDS_ACHIEVED                                                                                              \
    "results.flops_per_s, which counts the FLOPs of the model's GEMMs over the whole timed windows by the host's "     \
    "clock, / the higher of the two GEMM ceilings; of several ranks, the part of it that is the slowest one's share "  \
    "of samples and model"
#define RP_WORDS_EXCHANGE                                                                                              \
    "bytes_per_s: bytes * calls / shortest ns, where bytes is what a rank has of all after an all-gather, or sends "   \
    "in "                                                                                                              \
    "an all-to-all with its own piece; bus_bytes_per_s: that * (ranks - 1) / ranks, which is what a rank sends: "      \
    "busbw "                                                                                                           \
    "of nccl-tests"
#define RP_WORDS_LEAST                                                                                                 \
    "least_s: bytes_per_step of the slowest rank / the highest bus_bytes_per_s; measured_s: its exchanges in the "     \
    "timed "                                                                                                           \
    "steps, also those during the backward pass, with waiting and with what ranks of a model exchange, / timed steps"
