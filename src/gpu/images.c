/* Stands for the device code until the build makes it: no driver loads this. */
#include "backend/cuda/cuda.h"
static const unsigned char image[] = "\177ELF";
const struct rp_cuda_image rp_cuda_images[] = {{70, 0, image, sizeof image, ""}, {80, 0, image, sizeof image, ""}, {90, 0, image, sizeof image, ""}};
const int rp_cuda_image_count = 3;
