// Which rows of a seal survive, the sorted run of its keys, and how large the new segment's columns get.
// The specification is survey-js.ts; both give equal bytes. W-7 within a seal.
#include <cstring>

#include "entries.h"
#include "order.h"

namespace segment {

namespace {

uint64_t big_endian(const uint8_t* bytes, uint32_t length) {
  uint64_t word = 0;
  if (length >= 8) std::memcpy(&word, bytes, 8);
  else std::memcpy(&word, bytes, length);
  return __builtin_bswap64(word);
}

void read_keys(const std::vector<Entry>& entries, std::vector<Key>& keys, std::vector<Item>& items) {
  for (const Entry& entry : entries) {
    const Column column = entry.column(1);
    uint32_t row = 0;
    for (size_t r = 0; r < entry.request_count; r++) {
      const double sequence = entry.requests[3 * r];
      const uint32_t rows = static_cast<uint32_t>(entry.requests[3 * r + 2]);
      for (uint32_t k = 0; k < rows; k++, row++) {
        const uint8_t* bytes = column.data + column.offsets[row];
        const uint32_t length = static_cast<uint32_t>(column.offsets[row + 1] - column.offsets[row]);
        items.push_back({big_endian(bytes, length), length > 8 ? big_endian(bytes + 8, length - 8) : 0,
                         static_cast<uint32_t>(keys.size())});
        keys.push_back({bytes, length, entry.is_delete, sequence});
      }
    }
  }
}

// Leaves only the winners in `items`, and marks the winning rows of posts.
void keep_winners(std::vector<Item>& items, const std::vector<Key>& keys, uint8_t* keep) {
  size_t winners = 0;
  for (size_t i = 0; i < items.size(); i++) {
    if (i + 1 < items.size() && compare_keys(items[i], items[i + 1], keys) == 0) continue;
    items[winners++] = items[i];
    keep[items[i].row] = keys[items[i].row].is_delete ? 0 : 1;
  }
  items.resize(winners);
}

napi_value number_array(napi_env env, const std::vector<double>& numbers) {
  napi_value buffer, array;
  void* bytes = nullptr;
  napi_create_arraybuffer(env, numbers.size() * 8, &bytes, &buffer);
  if (!numbers.empty()) std::memcpy(bytes, numbers.data(), numbers.size() * 8);
  napi_create_typedarray(env, napi_float64_array, numbers.size(), buffer, 0, &array);
  return array;
}

// The KeyRun (src/keys/protocol.ts), and the sequences of its deletes in order.
napi_value write_run(napi_env env, const std::vector<Item>& items, const std::vector<Key>& keys, const uint8_t* keep,
                     std::vector<double>& deletes) {
  std::vector<int32_t> places(keys.size());
  int32_t place = 0;
  for (size_t row = 0; row < keys.size(); row++) places[row] = keep[row] ? place++ : -1;
  size_t bytes = 0;
  for (const Item& item : items) bytes += keys[item.row].length;
  const size_t n = items.size();
  napi_value run;
  void* memory = nullptr;
  napi_create_arraybuffer(env, 4 * (3 + 2 * n) + bytes, &memory, &run);
  int32_t* words = static_cast<int32_t*>(memory);
  int32_t *rows = words + 2, *offsets = words + 2 + n;
  uint8_t* to = reinterpret_cast<uint8_t*>(words + 3 + 2 * n);
  words[0] = static_cast<int32_t>(n);
  words[1] = static_cast<int32_t>(bytes);
  offsets[0] = 0;
  for (size_t i = 0; i < n; i++) {
    const Key& key = keys[items[i].row];
    rows[i] = places[items[i].row];
    if (rows[i] < 0) deletes.push_back(key.sequence);
    std::memcpy(to + offsets[i], key.bytes, key.length);
    offsets[i + 1] = offsets[i] + static_cast<int32_t>(key.length);
  }
  return run;
}

uint32_t count_nulls(const uint8_t* validity, uint32_t from, uint32_t to) {
  uint32_t nulls = 0;
  for (uint32_t row = from; row < to; row++) nulls += !((validity[row >> 3] >> (row & 7)) & 1);
  return nulls;
}

// Nulls and bytes of the kept rows, two numbers per batch column; the key is no column of the segment.
void sum_columns(const std::vector<Entry>& entries, const uint8_t* keep, std::vector<double>& sums) {
  each_run(entries, keep, [&](const Entry& entry, uint32_t from, uint32_t to) {
    for (int32_t c = 0; c < entry.columns && 2 * static_cast<size_t>(c) < sums.size(); c++) {
      if (c == 1) continue;
      const Column column = entry.column(c);
      if (column.nulls > 0)
        sums[2 * c] += to - from == entry.rows ? column.nulls : count_nulls(column.validity, from, to);
      if (column.kind == BINARY) sums[2 * c + 1] += column.offsets[to] - column.offsets[from];
    }
  });
}

}  // namespace

// segmentSurvey(batches, requests, kinds, keyed, columns): {keep, keys, deletes, sums}
napi_value survey(napi_env env, napi_callback_info info) {
  size_t count = 5;
  napi_value arguments[5], result, keep_buffer, keep_array;
  std::vector<Entry> entries;
  bool keyed = false;
  uint32_t columns = 0;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  if (count < 5 || !read_entries(env, arguments, entries)) return nullptr;
  napi_get_value_bool(env, arguments[3], &keyed);
  napi_get_value_uint32(env, arguments[4], &columns);
  size_t total = 0;
  for (const Entry& entry : entries) total += entry.rows;
  void* memory = nullptr;
  napi_create_arraybuffer(env, total, &memory, &keep_buffer);
  napi_create_typedarray(env, napi_uint8_array, total, keep_buffer, 0, &keep_array);
  uint8_t* keep = static_cast<uint8_t*>(memory);
  std::vector<double> deletes, sums(2 * columns, 0);
  napi_create_object(env, &result);
  if (keyed) {
    std::vector<Key> keys;
    std::vector<Item> items;
    keys.reserve(total);
    items.reserve(total);
    read_keys(entries, keys, items);
    sort_items(items, keys);
    keep_winners(items, keys, keep);
    napi_set_named_property(env, result, "keys", write_run(env, items, keys, keep, deletes));
  } else if (total > 0) {
    std::memset(keep, 1, total);
  }
  sum_columns(entries, keep, sums);
  napi_set_named_property(env, result, "keep", keep_array);
  napi_set_named_property(env, result, "deletes", number_array(env, deletes));
  napi_set_named_property(env, result, "sums", number_array(env, sums));
  return result;
}

}  // namespace segment
