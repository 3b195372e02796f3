/* What does PyTorch's CUDA build need of a machine before it believes that a GPU is there?
 *
 * This library is preloaded, so that its functions win over those of NVIDIA's libraries. Memory is handed out by
 * address alone and kernels are not launched, so whatever torch decides on the host is real, and every value that is
 * read back from the device is zero. The card is described by the environment variable CKPTLIB_PHANTOM, which
 * launch.py writes. Names that torch imports and that are not defined here become stubs (build.py).
 *
 * The headers are those of the nvidia packages that torch itself depends on. */

#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MiB ((size_t)1 << 20)

/* ---- the card ---------------------------------------------------------------------------------------------------- */

static struct {
    char name[64];
    int sms, threads_per_sm, major, minor, blocks_per_sm;
    size_t memory, shared_per_sm, shared_per_block, l2;
} card;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void read_card(void) {
    const char *text = getenv("CKPTLIB_PHANTOM");
    if (!text || sscanf(text, "%63[^,],%d,%d,%d,%d,%d,%zu,%zu,%zu,%zu", card.name, &card.sms, &card.threads_per_sm,
                        &card.major, &card.minor, &card.blocks_per_sm, &card.memory, &card.shared_per_sm,
                        &card.shared_per_block, &card.l2) != 10) {
        fprintf(stderr, "CKPTLIB_PHANTOM is %s, which does not describe a GPU. Start it with `ckptlib phantom`.\n",
                text ? text : "not set");
        _exit(2);
    }
}

/* ---- what the program used that nobody can know here ------------------------------------------------------------- */

static struct { const char *name; long times; } used[1024];
static int used_count;

static int note(const char *name, int status) { /* with the lock held */
    int i = 0;
    while (i < used_count && strcmp(used[i].name, name)) i++;
    if (i == 1024) return status;
    if (i == used_count) { used[i].name = name; used_count++; }
    used[i].times++;
    return status;
}
int phantom_note(const char *name, int status) { /* every stub calls this */
    pthread_mutex_lock(&lock);
    note(name, status);
    pthread_mutex_unlock(&lock);
    return status;
}
const char *phantom_used(int i, long *times) {
    if (i >= used_count) return NULL;
    *times = used[i].times;
    return used[i].name;
}

/* "value NAME" for an address inside at::_ops::NAME, which torch has for each op; PYTHON for one inside Python. Looking an
 * address up takes milliseconds, so it is done once. */
static const char PYTHON[] = "Python";
static const char *op_at(void *address) {
    static struct { void *address; const char *op; } known[8192];
    size_t i = (uintptr_t)address / 4 % 8192;
    for (int tries = 0; tries < 64 && known[i].address; tries++, i = (i + 1) % 8192)
        if (known[i].address == address) return known[i].op;
    Dl_info found;
    int length = 0, at = 0;
    char *op = NULL;
    const char *name = dladdr(address, &found) && found.dli_sname ? found.dli_sname : "";
    if (sscanf(name, "_ZN2at4_ops%d%n", &length, &at) == 1 && asprintf(&op, "value %.*s", length, name + at) < 0) op = NULL;
    known[i].address = address;
    known[i].op = strncmp(name + (*name == '_'), "Py", 2) ? op : PYTHON;
    return known[i].op;
}

/* Values go from the device to the host: note which op asked for them. That is the outermost one on the stack, as far as
 * Python, which may have been called by an op itself: by a hook for saved tensors, for example. */
static void values_read(void) {
    void *stack[64];
    int depth = backtrace(stack, 64);
    const char *op = "value copy_";
    pthread_mutex_lock(&lock);
    for (int i = 0; i < depth; i++) {
        const char *found = op_at(stack[i]);
        if (found == PYTHON) break;
        if (found) op = found;
    }
    note(op, 0);
    pthread_mutex_unlock(&lock);
}

/* ---- memory: addresses without anything behind them -------------------------------------------------------------- */

typedef struct Piece { uintptr_t at; size_t size; struct Piece *next; } Piece;
static Piece *pieces; /* sorted by address */
static uintptr_t base, limit;
static size_t taken;

static size_t rounded(size_t size) { return (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB); }

static int on_device(const void *p) { return (uintptr_t)p >= base && (uintptr_t)p < limit; }

static uintptr_t find_room(size_t size) { /* with the lock held; 0 if there is none */
    if (!base) { /* far more than the card, because addresses fragment, and some are reserved and never used */
        size_t room = 16 * card.memory;
        void *map = mmap(NULL, room + 2 * MiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED) { perror("phantom GPU: its addresses could not be reserved"); _exit(2); }
        base = rounded((uintptr_t)map);
        limit = base + room;
    }
    Piece **link = &pieces;
    uintptr_t at = base;
    while (*link && (*link)->at - at < rounded(size)) { at = (*link)->at + rounded((*link)->size); link = &(*link)->next; }
    if (at + rounded(size) > limit) return 0;
    Piece *piece = malloc(sizeof *piece);
    *piece = (Piece){at, size, *link};
    *link = piece;
    return at;
}
static size_t give_back(uintptr_t at) { /* with the lock held; the size of the piece, 0 if there is none */
    for (Piece **link = &pieces; *link; link = &(*link)->next)
        if ((*link)->at == at) {
            Piece *gone = *link;
            size_t size = gone->size;
            *link = gone->next;
            free(gone);
            return size;
        }
    return 0;
}
static int take(size_t size) { /* with the lock held: pages of the card */
    if (taken + rounded(size) > card.memory) return 0;
    taken += rounded(size);
    return 1;
}

cudaError_t cudaMalloc(void **out, size_t size) {
    pthread_mutex_lock(&lock);
    uintptr_t at = 0;
    if (take(size) && !(at = find_room(size))) taken -= rounded(size);
    pthread_mutex_unlock(&lock);
    *out = (void *)at;
    return at ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *p) {
    if (!p) return cudaSuccess;
    pthread_mutex_lock(&lock);
    size_t size = give_back((uintptr_t)p);
    taken -= rounded(size);
    pthread_mutex_unlock(&lock);
    return size ? cudaSuccess : cudaErrorInvalidValue;
}

/* Expandable segments: addresses are reserved, pages of the card are created, and mapping them needs nothing here. */
CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags) {
    pthread_mutex_lock(&lock);
    *out = find_room(size);
    pthread_mutex_unlock(&lock);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t size) {
    pthread_mutex_lock(&lock);
    give_back(at);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *how, unsigned long long flags) {
    pthread_mutex_lock(&lock);
    int there = take(size);
    pthread_mutex_unlock(&lock);
    *out = size; /* all that is asked of a handle later */
    return there ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle pages) {
    pthread_mutex_lock(&lock);
    taken -= rounded(pages);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *total = card.memory;
    *available = card.memory - taken;
    return cudaSuccess;
}

/* A lone byte is nearly always a boolean that says "all is well", such as mask.all() or torch.equal. */
static void answer(void *to, const void *from, size_t size) {
    if (on_device(to)) return;
    if (!on_device(from)) { memcpy(to, from, size); return; }
    values_read();
    memset(to, size == 1, size);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    answer(to, from, size);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return cudaMemcpy(to, from, size, kind);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
    for (size_t row = 0; row < height; row++) answer((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return cudaSuccess;
}
cudaError_t cudaMemset(void *p, int value, size_t size) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *p, int value, size_t size, cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, enum cudaMemcpyKind kind) {
    return cudaSuccess;
}

/* Pinned memory is ordinary memory here. A list of it is kept, because torch asks whether a pointer is pinned. */
static Piece *pinned;

static cudaError_t pin(void *p, size_t size) {
    pthread_mutex_lock(&lock);
    Piece *piece = malloc(sizeof *piece);
    *piece = (Piece){(uintptr_t)p, size, pinned};
    pinned = piece;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}
static cudaError_t unpin(void *p) {
    pthread_mutex_lock(&lock);
    for (Piece **link = &pinned; *link; link = &(*link)->next)
        if ((*link)->at == (uintptr_t)p) { Piece *gone = *link; *link = gone->next; free(gone); break; }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void **out, size_t size, unsigned flags) {
    if (posix_memalign(out, 4096, size ? size : 1)) return cudaErrorMemoryAllocation;
    return pin(*out, size);
}
cudaError_t cudaFreeHost(void *p) { unpin(p); free(p); return cudaSuccess; }
cudaError_t cudaHostRegister(void *p, size_t size, unsigned flags) { return pin(p, size); }
cudaError_t cudaHostUnregister(void *p) { return unpin(p); }

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p) {
    memset(out, 0, sizeof *out);
    if (on_device(p)) {
        out->type = cudaMemoryTypeDevice;
        out->devicePointer = (void *)p;
        return cudaSuccess;
    }
    out->type = cudaMemoryTypeUnregistered;
    out->device = -1;
    out->hostPointer = (void *)p;
    pthread_mutex_lock(&lock);
    for (Piece *piece = pinned; piece; piece = piece->next)
        if ((uintptr_t)p - piece->at < piece->size) { out->type = cudaMemoryTypeHost; out->device = 0; out->devicePointer = (void *)p; }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"); /* a program hides the card from those that it starts by "" */
    *count = !visible || *visible == '0';
    return *count ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDriverGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { *version = CUDART_VERSION; return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) { *can = 0; return cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) { snprintf(text, size, "0000:00:00.0"); return cudaSuccess; }

/* `cudaGetDeviceProperties` is a macro for this name in CUDA 12. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "phantom %s", card.name);
    memcpy(&out->uuid, "ckptlib phantom", 16);
    out->totalGlobalMem = card.memory;
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = card.shared_per_block;
    out->sharedMemPerMultiprocessor = card.shared_per_sm;
    out->reservedSharedMemPerBlock = 1 << 10;
    out->regsPerBlock = out->regsPerMultiprocessor = 65536;
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsPerMultiProcessor = card.threads_per_sm;
    out->maxBlocksPerMultiProcessor = card.blocks_per_sm;
    out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
    out->maxThreadsDim[2] = 64;
    out->maxGridSize[0] = 2147483647;
    out->maxGridSize[1] = out->maxGridSize[2] = 65535;
    out->totalConstMem = 64 << 10;
    out->major = card.major;
    out->minor = card.minor;
    out->textureAlignment = 512;
    out->texturePitchAlignment = 32;
    out->multiProcessorCount = card.sms;
    out->l2CacheSize = (int)card.l2;
    out->canMapHostMemory = out->concurrentKernels = out->unifiedAddressing = out->cooperativeLaunch = 1;
    out->asyncEngineCount = 3;
    return cudaSuccess;
}

static int attribute(int which) {
    switch (which) {
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 << 10;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return (int)card.shared_per_block;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return (int)card.shared_per_sm;
    case cudaDevAttrReservedSharedMemoryPerBlock: return 1 << 10;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMultiProcessorCount: return card.sms;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return card.threads_per_sm;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return card.blocks_per_sm;
    case cudaDevAttrComputeCapabilityMajor: return card.major;
    case cudaDevAttrComputeCapabilityMinor: return card.minor;
    case cudaDevAttrL2CacheSize: return (int)card.l2;
    case cudaDevAttrTextureAlignment: return 512;
    case cudaDevAttrClockRate: case cudaDevAttrMemoryClockRate: return 1000000;
    case cudaDevAttrUnifiedAddressing: case cudaDevAttrConcurrentKernels: case cudaDevAttrCooperativeLaunch: return 1;
    default: return 0;
    }
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device) { *value = attribute(which); return cudaSuccess; }

cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t error) { return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError"; }
const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotSupported: return "operation not supported by the phantom GPU";
    default: return "error of the phantom GPU";
    }
}

/* ---- streams and events: everything has happened already --------------------------------------------------------- */

static void *handle(void) { return malloc(16); } /* an address of its own; nobody reads what is behind it */

cudaError_t cudaStreamCreate(cudaStream_t *out) { *out = handle(); return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) { *out = handle(); return cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) { *out = handle(); return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { free(stream); return cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { *priority = 0; return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **nodes, size_t *count) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
#endif
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *data) { call(data); return cudaSuccess; }
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void *data, unsigned flags) {
    call(stream, cudaSuccess, data);
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out) { *out = handle(); return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) { *out = handle(); return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { free(event); return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    *ms = 0;
    return phantom_note("time", cudaSuccess);
}

/* ---- kernels are not launched ------------------------------------------------------------------------------------- */

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream) { return 0; }
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    *grid = *block = (dim3){1, 1, 1};
    *shared = 0;
    *(void **)stream = NULL;
    return cudaSuccess;
}
void **__cudaRegisterFatBinary(void *binary) { static void *one; return &one; }

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *kernel) {
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = 1024;
    out->numRegs = 32;
    out->binaryVersion = card.major * 10 + card.minor;
    out->ptxVersion = out->binaryVersion == 89 ? 86 : out->binaryVersion; /* torch is not compiled for 8.9 itself */
    out->maxDynamicSharedSizeBytes = 48 << 10;
    return cudaSuccess;
}
/* Registers and shared memory are not known, so the number of threads alone limits the blocks of a multiprocessor. */
static int resident(int threads) {
    int blocks = card.threads_per_sm / (threads > 0 ? threads : 1);
    return blocks < card.blocks_per_sm ? (blocks ? blocks : 1) : card.blocks_per_sm;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) {
    *blocks = resident(threads);
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared, unsigned flags) {
    *blocks = resident(threads);
    return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void **out, const void *symbol) { *out = (void *)symbol; return cudaSuccess; }

static CUresult nothing(void) { return CUDA_SUCCESS; }

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
    void *found = dlsym(RTLD_DEFAULT, name);
    *out = found ? found : (void *)nothing;
    if (result) *result = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) { *device = 0; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) { *value = attribute((int)which); return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *out) { *out = (CUcontext)&card; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) { *out = (CUcontext)&card; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) { *flags = 0; *active = 1; return CUDA_SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char **text) { *text = "error of the phantom GPU"; return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction kernel, int threads, size_t shared) {
    *blocks = resident(threads);
    return CUDA_SUCCESS;
}

/* ---- cuBLAS: torch brings the workspaces, and they are allocated by torch ------------------------------------------ */

/* Its header needs C++ headers that torch does not bring. Status 0 is success; a handle is a pointer. */
int cublasCreate_v2(void **out) { *out = handle(); return 0; }
int cublasGetMathMode(void *cublas, int *mode) { *mode = 0; return 0; }
int cublasGetPointerMode_v2(void *cublas, int *mode) { *mode = 0; return 0; }
int cublasLtMatmulDescCreate(void **out, int compute, int scale) { *out = handle(); return 0; }
int cublasLtMatmulDescDestroy(void *p) { free(p); return 0; }
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld) { *out = handle(); return 0; }
int cublasLtMatrixLayoutDestroy(void *p) { free(p); return 0; }
int cublasLtMatmulPreferenceCreate(void **out) { *out = handle(); return 0; }
int cublasLtMatmulPreferenceDestroy(void *p) { free(p); return 0; }

typedef struct { uint64_t algorithm[8]; size_t workspace; int status; float waves; int reserved[4]; } Heuristic;

int cublasLtMatmulAlgoGetHeuristic(void *lt, void *op, void *a, void *b, void *c, void *d, void *preference, int wanted,
                                   Heuristic *results, int *found) {
    memset(results, 0, sizeof *results);
    *found = 1;
    return 0;
}

/* ---- cuDNN: one algorithm for each convolution, whose workspace is not known and counts as nothing ------------------ */

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion(void) { return CUDART_VERSION; }
cudnnStatus_t cudnnGetProperty(libraryPropertyType which, int *value) {
    *value = which == MAJOR_VERSION ? CUDNN_MAJOR : which == MINOR_VERSION ? CUDNN_MINOR : CUDNN_PATCHLEVEL;
    return CUDNN_STATUS_SUCCESS;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
    return "a phantom GPU does not have this part of cuDNN. With torch.backends.cudnn.enabled = False, torch uses kernels of its own";
}
void cudnnGetLastErrorString(char *text, size_t size) { snprintf(text, size, "error of the phantom GPU"); }
cudnnStatus_t cudnnCreate(cudnnHandle_t *out) { *out = handle(); return CUDNN_STATUS_SUCCESS; }

#define CREATES(kind) \
    cudnnStatus_t cudnnCreate##kind##Descriptor(cudnn##kind##Descriptor_t *out) { *out = handle(); return CUDNN_STATUS_SUCCESS; } \
    cudnnStatus_t cudnnDestroy##kind##Descriptor(cudnn##kind##Descriptor_t p) { free(p); return CUDNN_STATUS_SUCCESS; }
CREATES(Tensor) CREATES(Filter) CREATES(Convolution) CREATES(Activation) CREATES(Pooling) CREATES(SpatialTransformer) CREATES(CTCLoss)

#define CHOOSES(pass, X, Y, Z, Perf) \
    cudnnStatus_t cudnnGetConvolution##pass##Algorithm_v7(cudnnHandle_t cudnn, const X x, const Y y, const cudnnConvolutionDescriptor_t conv, \
                                                          const Z z, const int wanted, int *found, Perf *results) { \
        phantom_note("cudnnConvolution" #pass, 0); \
        memset(results, 0, sizeof *results); \
        *found = 1; \
        return CUDNN_STATUS_SUCCESS; \
    }
CHOOSES(Forward, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgoPerf_t)
CHOOSES(BackwardData, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgoPerf_t)
CHOOSES(BackwardFilter, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgoPerf_t)

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t cudnn, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t z,
    const cudnnTensorDescriptor_t y, const cudnnTensorDescriptor_t scale, const cudnnActivationDescriptor_t activation, size_t *size) {
    *size = 0;
    return phantom_note("cudnnBatchNormalization", 0);
}
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(cudnnHandle_t cudnn, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
                                                                   const cudnnActivationDescriptor_t activation,
                                                                   const cudnnTensorDescriptor_t x, size_t *size) {
    *size = 0;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t cudnn, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t y,
    const cudnnTensorDescriptor_t dy, const cudnnTensorDescriptor_t dz, const cudnnTensorDescriptor_t dx, const cudnnTensorDescriptor_t scale,
    const cudnnActivationDescriptor_t activation, size_t *size) {
    *size = 0;
    return CUDNN_STATUS_SUCCESS;
}
