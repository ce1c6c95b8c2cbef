// From a launch to clusters of CTAs that run, a few at a time.
#include <algorithm>

#include "state.h"

namespace tileon::simulation {

std::deque<std::unique_ptr<Grid>> grids;

namespace {

constexpr int kMaxClusterCtas = 16;  // of which 8 are portable; more are never asked for here
constexpr uint64_t kMaxShuffled = 1 << 20;
constexpr int kMaxThreadsAlive = 6144;

template <typename T>
struct Pool {
  std::vector<std::unique_ptr<T>> all;
  std::vector<T*> free;

  T* take() {
    if (free.empty()) {
      all.push_back(std::make_unique<T>());
      return all.back().get();
    }
    T* one = free.back();
    free.pop_back();
    return one;
  }
};
Pool<Fiber> fibers;
Pool<Warp> warps;
Pool<Cta> ctas;
Pool<Cluster> clusters;
std::vector<Warpgroup*> free_groups;
std::vector<Cluster*> alive, ended_clusters;
uint64_t grid_count = 0;
uint32_t cluster_count = 0;

void set_up_thread(Cta& cta, int index, const dim3& size) {
  Fiber& fiber = *fibers.take();
  const auto x = static_cast<unsigned>(index);
  fiber.thread = {x % size.x, x / size.x % size.y, x / size.x / size.y};
  fiber.cta = &cta;
  fiber.lane = index % 32;
  fiber.index = index;
  fiber.exited = fiber.waited_for_grid = fiber.arrived_at_cluster = false;
  fiber.doing = "start";
  fiber.where = {};
  fiber.copies.clear();
  fiber.copy_ends.clear();
  fiber.stores.clear();
  fiber.stores_issued = 0;
  fiber.sums.clear();
  fiber.unfenced.clear();
  fiber.unpublished.clear();
  fiber.committed = fiber.issued = 0;
  fiber.loaded_word = nullptr;
  fiber.fenced_sums = fiber.fenced_inputs = false;
  start_clock(fiber);
  if (fiber.lane == 0) {
    Warp& warp = *warps.take();
    warp.cta = &cta;
    warp.index = index / 32;
    warp.ready = warp.alive = warp.arrived = 0;
    warp.elected = schedule.seed < 4 ? 0 : static_cast<int>(random_number() % 32);
    warp.priority = random_number();
    warp.registers = 0;
    cta.warps.push_back(&warp);
    if (index % 128 == 0) {
      Warpgroup* group = free_groups.empty() ? new_warpgroup() : free_groups.back();
      if (!free_groups.empty()) free_groups.pop_back();
      reset_warpgroup(*group, cta);
      cta.groups.push_back(group);
    }
    warp.group = cta.groups.back();
  }
  fiber.warp = cta.warps.back();
  fiber.warp->lanes[fiber.lane] = &fiber;
  fiber.warp->alive |= 1u << fiber.lane;
  add_to_warpgroup(*fiber.warp->group, fiber);
  if (fiber.stack == nullptr) fiber.stack = take_stack();
  // Not all at the same offset in a page: they would share a few lines of the first cache.
  prepare_context(fiber.context, fiber.stack, kStackBytes, static_cast<size_t>(index) * 320 % 4096, thread_main);
}

void set_up_cta(Cluster& cluster, uint3 block, int rank) {
  Grid& grid = *cluster.grid;
  Cta& cta = *ctas.take();
  cta.block = block;
  cta.rank = rank;
  cta.number = cluster.number * 16 + static_cast<uint32_t>(rank);
  cta.cluster = &cluster;
  cta.grid = &grid;
  cta.window = take_window(grid.dynamic_bytes);
  forget_accesses(cta.window + kDynamicBegin, kWindowEnd - kDynamicBegin);
  if (cta.writer.empty() || cta.any_writer) cta.writer.assign(kWindowEnd / 8, 0);
  cta.any_writer = false;
  cta.statics.clear();
  cta.static_end = kStaticBegin;
  cta.launched_dependents = false;
  cta.warps.clear();
  cta.groups.clear();
  for (NamedBarrier& barrier : cta.barriers) barrier = {};
  cta.at_mbarriers.clear();
  cta.at_registers.clear();
  cta.mbarriers.clear();
  cta.phase_orders.clear();
  cta.told.clear();
  const int threads = static_cast<int>(grid.block.x * grid.block.y * grid.block.z);
  cta.alive = threads;
  cluster.alive += threads;
  cluster.ctas.push_back(&cta);
  for (int index = 0; index < threads; ++index) set_up_thread(cta, index, grid.block);
  // As many for each thread as an SM has, in eights; up to 255 can be named.
  const int registers = std::min(64 * 1024 / std::max(threads, 1) / 8 * 8, 255);
  for (Warp* warp : cta.warps) warp->registers = registers;
  cta.registers_free = 64 * 1024 - registers * threads;
}

void start_cluster(Grid& grid) {
  uint64_t number = grid.started++;
  if (!grid.order.empty()) number = grid.order[number];
  Cluster& cluster = *clusters.take();
  cluster.grid = &grid;
  cluster.ctas.clear();
  cluster.alive = cluster.arrived = 0;
  cluster.number = ++cluster_count;
  cluster.phase = 0;
  cluster.order = {};
  cluster.waiting.clear();
  const uint64_t across = grid.grid.x / grid.cluster.x, down = grid.grid.y / grid.cluster.y;
  const auto x = static_cast<unsigned>(number % across) * grid.cluster.x;
  const auto y = static_cast<unsigned>(number / across % down) * grid.cluster.y;
  const auto z = static_cast<unsigned>(number / across / down) * grid.cluster.z;
  int rank = 0;
  for (unsigned k = 0; k < grid.cluster.z; ++k)
    for (unsigned j = 0; j < grid.cluster.y; ++j)
      for (unsigned i = 0; i < grid.cluster.x; ++i) set_up_cta(cluster, {x + i, y + j, z + k}, rank++);
  alive.push_back(&cluster);
  // A grid that overlaps the one in front runs first, so that it meets what that has not done yet.
  const bool overlaps = &grid != grids.front().get();
  for (Cta* cta : cluster.ctas)
    for (Warp* warp : cta->warps) wake_lanes(*warp, warp->alive, overlaps);
}

void recycle(Cluster& cluster) {
  for (Cta* cta : cluster.ctas) {
    for (Warp* warp : cta->warps) {
      for (Fiber* fiber : warp->lanes) fibers.free.push_back(fiber);
      warps.free.push_back(warp);
    }
    free_groups.insert(free_groups.end(), cta->groups.begin(), cta->groups.end());
    give_window_back(cta->window);
    ctas.free.push_back(cta);
  }
  clusters.free.push_back(&cluster);
}

// Whether clusters of grid `index` may start: all in front of it have ended or, of a dependent one, the one in front
// lets it go.
bool may_start(size_t index) {
  if (index == 0) return true;
  const Grid& before = *grids[index - 1];
  return grids[index]->dependent && schedule.overlaps_grids && before.ctas_released == before.cta_count();
}

int threads_of(const Cluster& cluster) {
  return static_cast<int>(cluster.ctas.size() * cluster.ctas[0]->warps.size()) * 32;
}

}  // namespace

bool start_one_more() {
  for (size_t i = 0; i < grids.size() && may_start(i); ++i) {
    if (!grids[i]->cooperative || grids[i]->started == grids[i]->clusters) continue;
    start_cluster(*grids[i]);
    return true;
  }
  return false;
}

bool start_clusters() {
  for (Cluster* cluster : ended_clusters) {
    Grid& grid = *cluster->grid;
    alive.erase(std::find(alive.begin(), alive.end(), cluster));
    recycle(*cluster);
    ++grid.ended;
    if (grid.done()) grid_ended(grid);
  }
  ended_clusters.clear();
  while (!grids.empty() && grids.front()->done()) grids.pop_front();
  for (size_t i = 0; i < grids.size() && may_start(i); ++i) {
    Grid& grid = *grids[i];
    int of_grid = 0, threads = 0;
    for (const Cluster* cluster : alive) {
      of_grid += cluster->grid == &grid;
      threads += threads_of(*cluster);
    }
    while (grid.started < grid.clusters &&
           (of_grid == 0 || (of_grid < schedule.clusters_alive && threads < kMaxThreadsAlive))) {
      start_cluster(grid);
      ++of_grid;
      threads += threads_of(*alive.back());
    }
    if (grid.started < grid.clusters) break;
  }
  return !alive.empty();
}

void grid_ended(Grid& ended) {
  for (const auto& grid : grids)
    if (grid->number == ended.number + 1) wake_all(grid->waiting);
}

void for_each_cta(void (*use)(const Cta&)) {
  for (const Cluster* cluster : alive)
    for (const Cta* cta : cluster->ctas) use(*cta);
}

void cluster_ended(Cluster& cluster) { ended_clusters.push_back(&cluster); }

void abandon_clusters() {
  for (Cluster* cluster : alive) recycle(*cluster);
  alive.clear();
  ended_clusters.clear();
}

void wait_for_grid(Site where) {
  if (!enter("griddepcontrol.wait", where)) return;
  Fiber& fiber = *current;
  const uint64_t number = fiber.cta->grid->number;
  for (const auto& grid : grids) {
    if (grid->number + 1 != number || grid->done()) continue;
    fiber.cta->grid->waiting.push_back(&fiber);
    block();
  }
  fiber.waited_for_grid = true;
}

void launch_dependents(Site where) {
  if (!enter("griddepcontrol.launch_dependents", where)) return;
  Cta& cta = *current->cta;
  if (cta.launched_dependents) return;
  cta.launched_dependents = true;
  if (++cta.grid->ctas_released == cta.grid->cta_count()) call_scheduler();
}

cudaError_t enqueue(const cudaLaunchConfig_t& config, Call* call) {
  auto grid = std::make_unique<Grid>();
  grid->call.reset(call);
  grid->number = ++grid_count;
  grid->grid = config.gridDim;
  grid->block = config.blockDim;
  grid->cluster = dim3(1, 1, 1);
  grid->dynamic_bytes = static_cast<uint32_t>(config.dynamicSmemBytes);
  grid->dependent = grid->cooperative = false;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization)
      grid->dependent = attribute.val.programmaticStreamSerializationAllowed != 0;
    if (attribute.id == cudaLaunchAttributeCooperative) grid->cooperative = attribute.val.cooperative != 0;
    if (attribute.id == cudaLaunchAttributeClusterDimension)
      grid->cluster = dim3(attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z);
  }
  const dim3 &size = grid->grid, &cluster = grid->cluster, &block = grid->block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool divides = size.x % cluster.x == 0 && size.y % cluster.y == 0 && size.z % cluster.z == 0;
  if (uint64_t{size.x} * size.y * size.z == 0 || size.x > 0x7fffffff || size.y > 65535 || size.z > 65535 ||
      threads == 0 || threads > 1024 || threads % 32 != 0 || !divides ||
      cluster.x * cluster.y * cluster.z > kMaxClusterCtas)
    return cudaErrorInvalidConfiguration;
  grid->clusters = uint64_t{size.x / cluster.x} * (size.y / cluster.y) * (size.z / cluster.z);
  if (schedule.seed >= 4 && grid->clusters <= kMaxShuffled) {
    for (uint32_t i = 0; i < grid->clusters; ++i) grid->order.push_back(i);
    for (size_t i = grid->order.size(); i > 1; --i) std::swap(grid->order[i - 1], grid->order[random_number() % i]);
  }
  ++statistics.grids;
  grids.push_back(std::move(grid));
  return cudaSuccess;
}

}  // namespace tileon::simulation
