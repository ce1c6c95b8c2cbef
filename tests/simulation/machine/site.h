// Where in the kernels' sources an instruction stands. Every instruction knows it, for messages, for the list of those
// that ran, and so that one of them can be left out at run time.
#pragma once

#include <cstdint>
#include <string>

namespace tileon::simulation {

struct Site {
  const char* file = "";
  int line = 0;

  // As a default argument: the place of the call.
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
  // Where a call returns to, of which the compiler's notes for debuggers tell the line when it is asked for.
  static Site of_call(const void* return_address) { return {static_cast<const char*>(return_address), -1}; }
};

inline bool operator==(const Site& a, const Site& b) { return a.line == b.line && a.file == b.file; }

// "sm90/mainloop/kernel.cuh:48".
std::string text_of(const Site& site);

// Of code, by its address: the function's name; a call's "file:line".
std::string name_of_function(const void* address);
std::string place_of_call(const void* return_address);

// Leaves out what stands in a file whose path ends with `file`, at `line`, for the warps from `first_warp` to
// `last_warp` of each CTA.
void leave_out(const std::string& file, int line, int first_warp, int last_warp);
void leave_out_nothing();

// From now on, each place that runs is counted.
void record_sites(bool on);
// A line a place: what it does, file:line, how often it ran, a bit for each warp that came there.
std::string recorded_sites();

// Whether either is wanted; then every instruction asks is_left_out.
extern bool sites_matter;
bool is_left_out(const char* what, const Site& site, int warp);

}  // namespace tileon::simulation
