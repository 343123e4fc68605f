// A flush's entries: batches (src/format/batch-layout.ts) with the requests whose rows they hold.
// write-segment.ts has checked every header and bound before a call comes here.
#pragma once
#include <node_api.h>

#include <cstdint>
#include <vector>

namespace segment {

enum Kind { BINARY = 1, BOOL = 2, I8 = 3, I16 = 4, I32 = 5, I64 = 6, F32 = 7, F64 = 8 };

struct Column {
  int32_t kind, nulls;
  const uint8_t* validity;  // null where no row is null
  const int32_t* offsets;   // null where values have a fixed width
  const uint8_t* data;
};

// Numbers of a request in an entry: sequence, received-at of its first row in µs, rows, and the
// step in µs from a row's received-at to the next row's.
constexpr size_t entry_words = 4;

struct Entry {
  const uint8_t* batch;
  const double* requests;  // entry_words each
  size_t request_count;
  uint32_t rows;
  int32_t columns;
  bool is_delete;

  Column column(int32_t index) const {
    const int32_t* words = reinterpret_cast<const int32_t*>(batch) + 6 + 6 * index;
    return {words[0], words[1], words[2] ? batch + words[2] : nullptr,
            words[3] ? reinterpret_cast<const int32_t*>(batch + words[3]) : nullptr, batch + words[4]};
  }
};

// Reads (batches, requests, kinds), three arguments of a call. False after a thrown error.
bool read_entries(napi_env env, napi_value* arguments, std::vector<Entry>& entries);

// Calls `call(entry, from, to)` for each run of rows that are written. `keep` has one byte per row
// of all entries.
template <class Call>
void each_run(const std::vector<Entry>& entries, const uint8_t* keep, Call call) {
  for (const Entry& entry : entries) {
    for (uint32_t row = 0; row < entry.rows && !entry.is_delete;) {
      while (row < entry.rows && !keep[row]) row++;
      const uint32_t from = row;
      while (row < entry.rows && keep[row]) row++;
      if (row > from) call(entry, from, row);
    }
    keep += entry.rows;
  }
}

napi_value deduplicate(napi_env env, napi_callback_info info);

}  // namespace segment
