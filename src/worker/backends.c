/* The backends of this program, in the order in which `auto` tries them. */
#include "worker/worker.h"

#include <stddef.h>

const struct rp_backend *const rp_backends[] = {&rp_worker_cuda, &rp_backend_cpu, NULL};
