/* crt/host_defines.h belongs to NVIDIA's compiler and is not in the wheel of the runtime, whose headers include it. This stands in for
 * it where C is compiled: words of CUDA C that mean nothing here, and how functions are called. */
#ifndef RP_HOST_DEFINES_H
#define RP_HOST_DEFINES_H

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDACB
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)

#endif
