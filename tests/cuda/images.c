/* Stands for the compiled device code where the driver is the test's own: it executes the same kernels by their names. */
#include "backend/cuda/cuda.h"

static const unsigned char image[] = "\177ELF of the shim";

const struct rp_cuda_image rp_cuda_images[] = {{70, 0, image, sizeof image, ""}, {80, 0, image, sizeof image, ""},
                                               {90, 0, image, sizeof image, ""}, {100, 1, image, sizeof image, ""}};
const int rp_cuda_image_count = 4;
