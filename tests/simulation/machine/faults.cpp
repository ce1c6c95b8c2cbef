// What is said when a kernel does what it must not.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "guarded.h"
#include "state.h"

namespace tileon::simulation {

std::string label;

namespace {

std::string fault_text;

// A kernel's name without its parameters: instances of templates are told apart by the label.
std::string name_of_kernel(const Grid& grid) {
  constexpr char hidden[] = "(anonymous namespace)::";
  std::string name = name_of_function(grid.call->kernel);
  for (size_t at = name.find(hidden); at != std::string::npos; at = name.find(hidden))
    name.erase(at, sizeof hidden - 1);
  name = name.substr(0, name.find_first_of("<("));
  const size_t type = name.rfind(' ');
  return type == std::string::npos ? name : name.substr(type + 1);
}

std::string text_of(const uint3& block) {
  return "(" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " + std::to_string(block.z) + ")";
}

// "0-31", "0,4-7".
std::string text_of_lanes(uint32_t lanes) {
  std::string text;
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    int last = lane;
    while (last < 31 && (lanes >> (last + 1) & 1) != 0) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(lane) + (last > lane ? "-" + std::to_string(last) : "");
    lane = last;
  }
  return text;
}

}  // namespace

std::string place_of(const Fiber& fiber) {
  std::string text = "in " + name_of_kernel(*fiber.cta->grid) + ", CTA " + text_of(fiber.cta->block) + ", warp " +
                     std::to_string(fiber.warp->index) + ", lane " + std::to_string(fiber.lane);
  if (fiber.where.line != 0) text += std::string(", at ") + fiber.doing + " in " + text_of(fiber.where);
  return text;
}

void clear_fault() { fault_text.clear(); }
const std::string& last_fault() { return fault_text; }

void fault(const std::string& what) {
  if (fault_text.empty()) {
    fault_text = what;
    if (running_task != nullptr) {
      fault_text += "; asynchronously, issued ";
      Fiber issuer = *running_task->owner;
      issuer.where = running_task->where;
      issuer.doing = "the instruction";
      fault_text += place_of(issuer);
    } else if (current != nullptr) {
      fault_text += "; " + place_of(*current);
    }
    fault_text +=
        "; seed " + std::to_string(schedule.seed) + (schedule.independent_lanes ? " with independent lanes" : "");
    if (!label.empty()) fault_text += "; " + label;
  }
  if (grids.empty()) {
    std::fprintf(stderr, "simulation: %s\n", fault_text.c_str());
    std::abort();  // outside of a launch nobody could go on
  }
  stop_running();
}

namespace {

std::map<std::string, std::map<std::pair<const Cta*, int>, uint32_t>> waiters_by_text;

void list_waiter(const Fiber& fiber) {
  std::string text = std::string(fiber.doing) + " in " + text_of(fiber.where);
  if (std::string(fiber.doing) == "mbarrier.try_wait")
    text +=
        " for parity " + std::to_string(fiber.wait_parity) + ": " + text_of_mbarrier(*fiber.cta, fiber.wait_address);
  if (std::string(fiber.doing) == "bar.sync") {
    const NamedBarrier& barrier = fiber.cta->barriers[fiber.wait_address & 15];
    text += ": barrier " + std::to_string(fiber.wait_address) + " has " + std::to_string(barrier.arrived) + " of " +
            std::to_string(barrier.expected) + " threads";
  }
  waiters_by_text[text][{fiber.cta, fiber.warp->index}] |= 1u << fiber.lane;
}

void list_cta(const Cta& cta) {
  for (const Warp* warp : cta.warps)
    for (const Fiber* fiber : warp->lanes)
      if (!fiber->exited) list_waiter(*fiber);
}

}  // namespace

void report_deadlock() {
  waiters_by_text.clear();
  for_each_cta(list_cta);
  std::string text = "deadlock:";
  for (const auto& [what, of_warps] : waiters_by_text) {
    text += "\n  " + what + ":";
    int listed = 0;
    for (const auto& [warp, lanes] : of_warps) {
      if (++listed > 12) {
        text += " and " + std::to_string(of_warps.size() - 12) + " more warps";
        break;
      }
      text += (listed > 1 ? "; " : " ") + std::string("CTA ") + text_of(warp.first->block) + " warp " +
              std::to_string(warp.second) + (lanes == 0xffffffffu ? "" : " lanes " + text_of_lanes(lanes));
    }
  }
  fault(text + "\n ");
}

// A fault of the host's memory protection inside a kernel becomes one of the launch.

namespace {

void on_signal(int number, siginfo_t* info, void*) {
  if (current == nullptr && running_task == nullptr) {
    signal(number, SIG_DFL);  // not ours: it happens again, and ends the process
    return;
  }
  char address[32];
  std::snprintf(address, sizeof address, "%p", info->si_addr);
  const std::string beside = guarded_place(info->si_addr);
  fault(std::string("access to memory at ") + address + (beside.empty() ? ", which is nobody's" : ", " + beside));
}

}  // namespace

void install_signal_handler() {
  static unsigned char stack[128 * 1024];
  const stack_t alternate{stack, 0, sizeof stack};
  sigaltstack(&alternate, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tileon::simulation
