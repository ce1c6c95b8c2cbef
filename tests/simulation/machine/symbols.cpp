// What an address in the code is called, and where in the sources it stands, by binutils.
#include <dlfcn.h>

#include <cstdio>
#include <map>
#include <vector>

#include "site.h"

namespace tileon::simulation {

namespace {

// Pairs of lines: a function, its file and line. The innermost of those that were inlined first.
const std::vector<std::string>& lines_of(const void* address) {
  static auto& known = *new std::map<const void*, std::vector<std::string>>;
  const auto [found, is_new] = known.try_emplace(address);
  Dl_info info{};
  if (!is_new || dladdr(address, &info) == 0) return found->second;
  char command[4096];
  std::snprintf(command, sizeof command, "addr2line -C -f -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname,
                static_cast<size_t>(static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase)));
  FILE* pipe = popen(command, "r");
  if (pipe == nullptr) return found->second;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    found->second.emplace_back(line);
    found->second.back().pop_back();
  }
  pclose(pipe);
  return found->second;
}

}  // namespace

std::string name_of_function(const void* address) {
  const auto& lines = lines_of(address);
  return lines.size() < 2 || lines[lines.size() - 2] == "??" ? "a kernel without a name" : lines[lines.size() - 2];
}

std::string place_of_call(const void* return_address) {
  const auto& lines = lines_of(static_cast<const char*>(return_address) - 1);
  for (size_t i = 1; i < lines.size(); i += 2) {
    const bool is_kernel = lines[i].find("csrc/cuda/") != std::string::npos;
    if ((is_kernel && lines[i].find("cuda/ptx/") == std::string::npos) || lines[i].find(".cu:") != std::string::npos)
      return lines[i].substr(0, lines[i].find(" (discriminator"));
  }
  return lines.size() < 2 ? "an unknown place" : lines[1];
}

}  // namespace tileon::simulation
