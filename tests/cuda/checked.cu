/* RP_CHECKED, "<backend/cuda/NAME.cu>", with its fused multiply-adds marked: only its PTX is looked at. */
#include "tests/cuda/written.h"
#include RP_CHECKED
