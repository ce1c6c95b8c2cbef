// The table of backends (backend.h) with backends that only count: numbering, choice, and what may be chosen.
#include <string>

#include "cuda/dispatch/backends.h"
#include "expect.h"

namespace tileon {
namespace {

// A problem of any size, which is its m.
Problem of_size(int size) {
  Problem problem;
  problem.m = size;
  return problem;
}

template <char kLetter, int kCount>
struct Fake {
  static int config_count() { return kCount; }
  static const char* config_name(int config) {
    static const std::string names[] = {std::string(1, kLetter) + "0", std::string(1, kLetter) + "1"};
    return names[config].c_str();
  }
  static ConfigFields config_fields(int config) {
    return {"bytes,words", "fake", "counting", "plain", 1 + config, 2, 3, 4, kCount > 1};
  }
  static const char* why_not(int config, const Problem& problem, const Gpu&) {
    return problem.m > 100 * (config + 1) ? "it is too large" : nullptr;
  }
  static bool is_even(int, const Problem& problem) { return problem.m % 2 == 0; }
  static Choice choose_config(const Problem& problem, const Gpu&) { return {problem.m > 50 ? -1 : kCount - 1}; }
  static Choice choose_any(const Problem&, const Gpu&) { return {0}; }
  static WantedCopy wants_copy(Side, const Problem&) { return WantedCopy::kNone; }
  static int64_t scratch_bytes(int, const Problem& problem, const Gpu&) { return problem.m > 40 ? 0 : 8; }
  static DeviceFlag run(int, const Problem&, const Gpu&, void*, cudaStream_t) { return {}; }
};

using First = Fake<'a', 2>;
using Last = Fake<'b', 1>;
const Backend kFirst{80,
                     90,
                     First::config_count,
                     First::config_name,
                     First::config_fields,
                     First::why_not,
                     First::is_even,
                     First::choose_config,
                     First::wants_copy,
                     First::scratch_bytes,
                     First::run};
const Backend kLast{80,
                    999,
                    Last::config_count,
                    Last::config_name,
                    Last::config_fields,
                    Last::why_not,
                    nullptr,
                    Last::choose_any,
                    Last::wants_copy,
                    nullptr,
                    Last::run};
// Backends whose configs take known times: of a problem of m, so many nanoseconds each.
Choice takes_m(const Problem& problem, const Gpu&) {
  return {0, static_cast<double>(problem.m), static_cast<double>(problem.m)};
}
Choice takes_20(const Problem&, const Gpu&) { return {0, 20, 20}; }
const Backend kTimed = [] {
  Backend timed = kLast;
  timed.choose_config = takes_m;
  return timed;
}();
const Backend kTimedToo = [] {
  Backend timed = kLast;
  timed.config_name = First::config_name;
  timed.choose_config = takes_20;
  return timed;
}();
const Backend* const kTable[] = {&kFirst, &kLast};
const Backends kBackends{kTable};
const Gpu kOld{75, 10, 0}, kBoth{80, 10, 0}, kNew{120, 10, 0};

void test_numbers() {
  expect(kBackends.config_count() == 3, "configs are counted through all backends");
  expect(std::string(kBackends.at(1)->name()) == "a1" && std::string(kBackends.at(2)->name()) == "b0", "in order");
  expect(!kBackends.at(3) && !kBackends.at(-1), "and there are no others");
  const auto line = [](const std::string& index_and_name, const std::string& tile, const std::string& measured) {
    return index_and_name + " operands=bytes,words backend=fake family=counting route=plain tile=" + tile +
           " splits=4 measured=" + measured + "\n";
  };
  const std::string lines = line("index=0 name=a0", "1x2x3", "1") + line("index=1 name=a1", "2x2x3", "1") +
                            line("index=2 name=b0", "1x2x3", "0");
  expect(kBackends.text() == lines, "a line for each");
}

void test_choice() {
  const auto name = [](const BackendConfig& config) {
    return config.backend == nullptr ? std::string() : std::string(config.name());
  };
  expect(name(kBackends.choose(of_size(10), kBoth)) == "a1", "the first backend's choice");
  expect(name(kBackends.choose(of_size(60), kBoth)) == "b0", "the next one's, where it takes none");
  expect(name(kBackends.choose(of_size(10), kNew)) == "b0", "or is not for the GPU");
  expect(name(kBackends.choose(of_size(10), kOld)).empty(), "none, where none is");
  expect(name(kBackends.choose(of_size(10), kBoth, false)) == "b0", "the first choice that needs no scratch");
  expect(name(kBackends.choose(of_size(44), kBoth, false)) == "a1", "which may be the first backend's");
}

void test_the_faster_of_two_choices() {
  const auto chosen = [](const Backend* first, const Backend* then, int size) {
    const Backend* const table[] = {first, then};
    return std::string(Backends{table}.choose(of_size(size), kBoth).name());
  };
  expect(chosen(&kTimed, &kTimedToo, 10) == "b0" && chosen(&kTimed, &kTimedToo, 20) == "b0", "the first one's");
  expect(chosen(&kTimed, &kTimedToo, 30) == "a0", "the second one's, which takes less");
  expect(chosen(&kTimed, &kFirst, 30) == "b0", "what takes nobody knows how long is no faster");
  expect(chosen(&kFirst, &kTimedToo, 30) == "a1", "nor is anything faster than that");
}

void test_candidates() {
  expect(kBackends.candidates_text(of_size(10), kBoth) == "0 a0\n1 a1\n2 b0\n", "all that run the problem");
  expect(kBackends.candidates_text(of_size(150), kBoth) == "1 a1\n", "none that cannot");
  expect(kBackends.candidates_text(of_size(11), kBoth) == "2 b0\n", "none that errs too much");
  expect(kBackends.candidates_text(of_size(10), kNew) == "2 b0\n", "none of another GPU's");
  expect(kBackends.candidate("a1", of_size(150), kBoth).has_value() &&
             !kBackends.candidate("a0", of_size(150), kBoth) && !kBackends.candidate("c0", of_size(10), kBoth),
         "by name, where it may be chosen");
}

}  // namespace
}  // namespace tileon

int main() {
  tileon::test_numbers();
  tileon::test_choice();
  tileon::test_the_faster_of_two_choices();
  tileon::test_candidates();
  return report("backends");
}
