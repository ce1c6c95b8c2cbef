#include "site.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_map>

namespace tileon::simulation {

bool sites_matter = false;

namespace {

struct Record {
  const char* what = nullptr;
  Site site;
  uint64_t count = 0;
  uint32_t warps = 0;  // that came here
  bool left_out = false;
};

struct Hash {
  size_t operator()(const std::pair<const char*, uint64_t>& key) const {
    return (reinterpret_cast<uintptr_t>(key.first) ^ key.second) * 0x9e3779b97f4a7c15u >> 20;
  }
};

// By the text of the instruction's name, and by the file's and the line.
std::unordered_map<std::pair<const char*, uint64_t>, Record, Hash> records;
bool recording = false;
std::string wanted_file;
int wanted_line = 0, wanted_first_warp = 0, wanted_last_warp = 0;

// Of the path, what is below csrc/cuda.
std::string short_name(const char* file) {
  const std::string name = std::filesystem::path(file).lexically_normal();
  const size_t at = name.find("csrc/cuda/");
  return at == std::string::npos ? name : name.substr(at + std::strlen("csrc/cuda/"));
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void forget_decisions() {
  records.clear();
  sites_matter = recording || !wanted_file.empty();
}

}  // namespace

std::string text_of(const Site& site) {
  if (site.line < 0) return short_name(place_of_call(site.file).c_str());
  return short_name(site.file) + ":" + std::to_string(site.line);
}

void leave_out(const std::string& file, int line, int first_warp, int last_warp) {
  wanted_file = file;
  wanted_line = line;
  wanted_first_warp = first_warp;
  wanted_last_warp = last_warp;
  forget_decisions();
}

void leave_out_nothing() {
  wanted_file.clear();
  forget_decisions();
}

void record_sites(bool on) {
  recording = on;
  forget_decisions();
}

std::string recorded_sites() {
  // One source line may be several records: each object file has a text of its own with the file's name.
  std::map<std::string, std::pair<uint64_t, uint32_t>> sums;
  for (const auto& [key, record] : records) {
    auto& [count, warps] = sums[std::string(record.what) + " " + text_of(record.site)];
    count += record.count;
    warps |= record.warps;
  }
  std::string all;
  for (const auto& [text, sum] : sums)
    all += text + " " + std::to_string(sum.first) + " " + std::to_string(sum.second) + "\n";
  return all;
}

bool is_left_out(const char* what, const Site& site, int warp) {
  const auto file = reinterpret_cast<uintptr_t>(site.file);
  Record& record = records[{what, file * 4096 + static_cast<uint64_t>(site.line)}];
  if (record.what == nullptr) {
    record.what = what;
    record.site = site;
    record.left_out = !wanted_file.empty() && site.line == wanted_line && ends_with(short_name(site.file), wanted_file);
  }
  ++record.count;
  record.warps |= 1u << warp;
  return record.left_out && warp >= wanted_first_warp && warp <= wanted_last_warp;
}

}  // namespace tileon::simulation
