// For functions that the host and every GPU kernel share: one definition, the same bits.
#pragma once

#ifdef __CUDACC__
#define TILEON_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TILEON_HOST_DEVICE inline
#endif
