// What Python calls beside a problem's run: schedules, memory, what is left out.
#include <cstdint>
#include <iterator>
#include <string>

#include "guarded.h"
#include "runtime.h"
#include "state.h"

using namespace tileon;

extern "C" {

void simulation_begin(uint64_t seed, int independent_lanes) {
  simulation::keep_launches(true);
  simulation::begin_run(simulation::Schedule::from_seed(seed, independent_lanes != 0));
}
int simulation_choose_device(const char* name) { return simulation::choose_device(name) ? 1 : 0; }

void* simulation_allocate(int64_t bytes, int at_end, int alignment) {
  return simulation::allocate_guarded(static_cast<size_t>(bytes), at_end != 0, static_cast<size_t>(alignment));
}
int simulation_padding_is_intact() { return simulation::padding_is_intact() ? 1 : 0; }
void simulation_free() { simulation::free_all_guarded(); }

void simulation_leave_out(const char* file, int line, int first_warp, int last_warp) {
  if (file == nullptr) return simulation::leave_out_nothing();
  simulation::leave_out(file, line, first_warp, last_warp);
}
void simulation_record_sites(int on) { simulation::record_sites(on != 0); }
const char* simulation_sites() {
  static std::string text;
  text = simulation::recorded_sites();
  return text.c_str();
}

// Switches, asynchronous tasks, wgmma, mma.sync, grids, fmaf; since the library was loaded.
void simulation_statistics(uint64_t* counts) {
  const simulation::Statistics& from = simulation::statistics;
  const uint64_t all[] = {from.switches, from.tasks, from.products, from.mmas, from.grids, simulation::fmaf_count};
  for (size_t i = 0; i < std::size(all); ++i) counts[i] = all[i];
}
}
