// The state of the simulated GPU, for the parts of the machine.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fiber.h"
#include "machine.h"
#include "order.h"
#include "schedule.h"

namespace tileon::simulation {

struct Warp;
struct Warpgroup;
struct Cta;
struct Cluster;
struct Grid;

// A cp.async that nobody has waited for.
struct Copy {
  unsigned char* to;
  const unsigned char* from;
  int bytes, valid;
  bool landed;
};

// A thread's registers that belong to the tensor core.
struct Accumulator {
  uint32_t* registers = nullptr;  // null: none, the place is free
  int count = 0;
  int last_group = 0;
};

struct Fiber {
  Context context;
  unsigned char* stack = nullptr;
  uint3 thread;
  Cta* cta;
  Warp* warp;
  int lane;
  int index;  // in the CTA
  bool exited;

  // What it does or did last; of a wait, for what.
  const char* doing;
  Site where;
  uint32_t wait_address, wait_parity;

  bool waited_for_grid;
  bool arrived_at_cluster;
  std::vector<Copy> copies;       // oldest first
  std::vector<size_t> copy_ends;  // of each closed group, the number of copies up to its end
  std::vector<uint64_t> stores;   // TMA's, oldest first: numbers of tasks
  uint32_t stores_issued;

  // wgmma
  std::vector<Accumulator> sums;
  int committed;       // groups
  int issued;          // products of the open group
  bool fenced_sums;    // since registers were given back
  bool fenced_inputs;  // since the last group was closed

  // Eights of bytes of shared memory that this thread wrote since its last fence for the async proxy; and those that it
  // has fenced since it last took part in something that makes its writes known to others.
  std::vector<uint32_t> unfenced, unpublished;

  Clock clock;
  uint32_t came_step, came_phase;  // when it last came to the cluster's barrier

  const uint64_t* loaded_word;  // by load_acquire, the last one
  uint64_t loaded_value;
};

using Operation = void (*)(Warp&);

struct Warp {
  Fiber* lanes[32];
  void* arguments[32];
  Cta* cta;
  Warpgroup* group;
  int index;              // in the CTA
  uint32_t ready, alive;  // bits of lanes
  uint32_t arrived;       // at the collective instruction
  Operation operation;
  Site operation_site;
  int elected;
  uint64_t priority;
  int registers;  // of a thread
};

struct NamedBarrier {
  int arrived = 0, expected = 0;
  uint32_t arrived_lanes[32] = {};  // by warp
  std::vector<Fiber*> waiting;
  int value = 0, result = 0;  // of __syncthreads_or
  Clock order;
};

struct Cta {
  uint3 block;
  uint32_t number;  // the cluster's times 16, and the rank there
  int rank;
  Cluster* cluster;
  Grid* grid;
  unsigned char* window;         // where shared address 0 would be
  std::vector<uint16_t> writer;  // of each eight bytes, who wrote it last without the async proxy's knowing
  bool any_writer;
  struct Static {
    const void* type;
    uint32_t address, bytes;
  };
  std::vector<Static> statics;
  uint32_t static_end;
  int alive;
  int registers_free;
  bool launched_dependents;
  std::vector<Warp*> warps;
  std::vector<Warpgroup*> groups;
  NamedBarrier barriers[16];
  std::vector<Fiber*> at_mbarriers, at_registers;
  std::vector<uint32_t> mbarriers;  // addresses
  std::vector<PhaseOrder> phase_orders;
  std::vector<Told> told;  // by other CTAs of the grid
};

struct Cluster {
  Grid* grid;
  std::vector<Cta*> ctas;
  int alive, arrived;  // threads
  uint32_t number, phase;
  std::vector<Fiber*> waiting;
  ClusterOrder order;
};

struct Grid {
  std::unique_ptr<Call> call;
  uint64_t number;
  dim3 grid, block, cluster;
  uint32_t dynamic_bytes;
  bool dependent;    // may start before the grid in front of it has ended
  bool cooperative;  // all CTAs are there at once: a schedule that keeps some back lets them come where all others wait
  uint64_t clusters, started = 0, ended = 0;
  uint64_t ctas_released = 0;  // that said launch_dependents, or ended
  std::vector<uint32_t> order;
  std::vector<Fiber*> waiting;  // for the grid in front of this one
  uint64_t cta_count() const { return clusters * cluster.x * cluster.y * cluster.z; }
  bool done() const { return ended == clusters; }
};

// Where the shared window's parts lie.
constexpr uint32_t kDynamicBegin = 1024;
constexpr uint32_t kStaticBegin = 232 * 1024, kWindowEnd = 256 * 1024;  // descriptors have 18 bits
constexpr unsigned char kPoison = 0xff;                                 // all bits set is NaN in every format
constexpr uint32_t kPoisonedSum = 0x7fbadbad;                           // NaN, and a large integer

extern Fiber* current;
extern std::deque<std::unique_ptr<Grid>> grids;  // in the stream's order

cudaError_t enqueue(const cudaLaunchConfig_t& config, Call* call);  // takes `call` over

// Fibers.
void block();  // the thread that is running, until `wake`
void wake(Fiber* fiber);
void wake_all(std::vector<Fiber*>& fibers);
void wake_lanes(Warp& warp, uint32_t lanes, bool before_others = false);  // at least one
void maybe_preempt();                                                     // at any instruction
void maybe_preempt_warp();                                                // all of its lanes at the same place
void run_all_grids();                                                     // returns when all have ended, or at a fault
void stop_running();                                                      // from a fault; never returns
void call_scheduler();  // soon: something that it waits for may have happened
void grid_ended(Grid& ended);
bool start_clusters();  // those that can be; whether any is alive
bool start_one_more();  // of a cooperative grid, whose CTAs are all there at once
void forget_waiting_for_words();
void cluster_ended(Cluster& cluster);
void thread_main();
void abandon_clusters();

// At the start of an instruction. False where it is left out.
inline bool enter(const char* what, const Site& where) {
  current->doing = what;
  current->where = where;
  if (sites_matter && is_left_out(what, where, current->warp->index)) return false;
  if (schedule.preempt_one_in != 0) maybe_preempt();
  return true;
}

// Barriers.
void release_cta_barrier(Cta& cta);
void release_cluster_barrier(Cluster& cluster);
void expect_no_bytes(Cta& cta);  // at its end
void bytes_arrived(Cta& cta, uint32_t barrier, uint32_t bytes);
std::string text_of_mbarrier(Cta& cta, uint32_t barrier);

// Shared memory.
unsigned char* take_window(uint32_t dynamic_bytes);
void give_window_back(unsigned char* window);
unsigned char* shared_of(Cta& cta, uint32_t address, uint32_t bytes);
Cta& cta_of_cluster(uint32_t rank);  // which has not ended
void wrote_shared(uint32_t address, uint32_t bytes);
void publish_writes();  // by the thread that is running, to those that synchronize with it
void expect_fenced(Cta& cta, uint32_t address, uint32_t bytes, const Fiber* reader, const char* what);
void forget_writers(Cta& cta, uint32_t address, uint32_t bytes);

// What cuTensorMapEncodeTiled writes here. Innermost dimension first.
struct TensorMap {
  unsigned char* data;
  uint64_t sizes[5];
  uint64_t strides[5];  // bytes, of dimensions 1 and up; the first place is unused
  uint16_t box[5];
  uint8_t dimensions, element_bytes;
  uint8_t swizzle_bits;  // how many of a shared address's bits, from 4 on, are exchanged
  uint8_t magic;
  bool rounds_to_tf32;  // what is loaded, float32
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));
constexpr uint8_t kTensorMapMagic = 0x7a;

// By TMA and wgmma: bits 4 and up with the bits three places above (PTX ISA, "Swizzling Modes").
inline uint32_t swizzled(uint32_t address, int bits) { return address ^ (address >> 3 & ((1u << bits) - 1) << 4); }

// Asynchronous work of TMA and of wgmma, which happens now or later.
struct Task {
  enum class Kind : int8_t { kLoadBox, kLoadBytes, kStoreBox, kStoreWords, kProducts } kind;
  uint64_t number;
  Cta* cta;
  Fiber* owner;
  Site where;
  TensorMap map;
  int at[5];
  uint32_t shared, barrier;
  const unsigned char* from;
  uint32_t bytes;
  uint64_t checksum;  // of what a store reads
  uint32_t words[4];  // that st.async stores
  Warpgroup* group;
};
extern std::vector<Task> tasks;
extern const Task* running_task;
uint64_t add_task(Task task);
bool run_task(uint64_t number);  // if it has not run yet
bool run_some_task();            // because nobody can run
void maybe_run_task();           // because it may happen
void end_tasks(Cta& cta);
void perform_copy(Task& task);
void end_thread_copies(Fiber& fiber);
void expect_waited_for_grid();                          // by a thread that uses global memory
void expect_inside(const void* address, size_t bytes);  // of a tensor, where it is guarded memory

// Products.
Warpgroup* new_warpgroup();
void reset_warpgroup(Warpgroup& group, Cta& cta);
void add_to_warpgroup(Warpgroup& group, Fiber& fiber);
void perform_products(Task& task);
void end_thread_products(Fiber& fiber);

// Faults.
struct Statistics {
  uint64_t switches = 0, tasks = 0, products = 0, mmas = 0, grids = 0;
};
extern Statistics statistics;
std::string place_of(const Fiber& fiber);
[[noreturn]] void report_deadlock();
void clear_fault();
const std::string& last_fault();
void install_signal_handler();
extern std::string label;                    // of what runs, for messages
void for_each_cta(void (*use)(const Cta&));  // that has not ended

}  // namespace tileon::simulation
