// Builds the sorted key run of a segment's rows from the raw Arrow buffers of its key columns. The
// specification is the loop in format/segment-keys.ts over format/key.ts; both give equal bytes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "../../parse/native/key.h"
#include "key_store.h"

namespace {

using weir::Type;

// A key column of one record batch. Arrow's layout: bits for booleans, offsets and bytes for text.
struct Part {
  const uint8_t* data;
  size_t data_bytes;
  const int32_t* offsets;  // of text, else nullptr
};

// All keys one after the other, and where each begins. Sorting moves the items, never the bytes.
struct Keys {
  weir::Buffer<uint8_t> bytes;
  std::vector<size_t> begins;  // one more than keys
};

int compare_rows(const Keys& keys, uint32_t a, uint32_t b) {
  const size_t a_bytes = keys.begins[a + 1] - keys.begins[a], b_bytes = keys.begins[b + 1] - keys.begins[b];
  const int order =
      std::memcmp(keys.bytes.data + keys.begins[a], keys.bytes.data + keys.begins[b], std::min(a_bytes, b_bytes));
  if (order != 0) return order;
  return a_bytes < b_bytes ? -1 : a_bytes > b_bytes ? 1 : 0;
}

std::vector<KeyItem> sorted_items(const Keys& keys) {
  std::vector<KeyItem> items;
  const size_t count = keys.begins.size() - 1;
  items.reserve(count);
  for (size_t row = 0; row < count; row++) {
    const uint8_t* bytes = keys.bytes.data + keys.begins[row];
    const size_t length = keys.begins[row + 1] - keys.begins[row];
    items.push_back(key_item(bytes, length, static_cast<uint32_t>(row)));
  }
  const auto below = [&](const KeyItem& a, const KeyItem& b) {
    if (a.high != b.high) return a.high < b.high;
    if (a.low != b.low) return a.low < b.low;
    return compare_rows(keys, a.row, b.row) < 0;
  };
  if (!std::is_sorted(items.begin(), items.end(), below)) std::sort(items.begin(), items.end(), below);
  return items;
}

template <typename T>
T value_at(const uint8_t* data, size_t row) {
  T value;
  std::memcpy(&value, data + row * sizeof(T), sizeof(T));
  return value;
}

uint8_t* write_part(uint8_t* out, Type type, const Part& part, size_t row) {
  switch (type) {
    case Type::boolean: return weir::write_key_boolean(out, (part.data[row >> 3] >> (row & 7)) & 1);
    case Type::float32: return weir::write_key_double(out, value_at<float>(part.data, row));
    case Type::float64: return weir::write_key_double(out, value_at<double>(part.data, row));
    case Type::int8: return weir::write_key_int64(out, value_at<int8_t>(part.data, row));
    case Type::int16: return weir::write_key_int64(out, value_at<int16_t>(part.data, row));
    case Type::int32: return weir::write_key_int64(out, value_at<int32_t>(part.data, row));
    case Type::date: return weir::write_key_days(out, value_at<int32_t>(part.data, row));
    case Type::int64: case Type::timestamp: return weir::write_key_int64(out, value_at<int64_t>(part.data, row));
    default: {
      const size_t from = static_cast<size_t>(part.offsets[row]), to = static_cast<size_t>(part.offsets[row + 1]);
      return weir::write_key_string(out, part.data + from, to - from);
    }
  }
}

bool fits(Type type, const Part& part, size_t offset_count, size_t rows) {
  if (type == Type::boolean) return part.data_bytes >= (rows + 7) / 8;
  if (type != Type::string) return part.data_bytes >= rows * weir::width_of(weir::kind_of(type));
  if (part.offsets == nullptr || offset_count < rows + 1 || part.offsets[0] < 0) return false;
  for (size_t row = 0; row < rows; row++)
    if (part.offsets[row + 1] < part.offsets[row]) return false;
  return part.data_bytes >= static_cast<size_t>(part.offsets[rows]);
}

napi_value element(napi_env env, napi_value array, uint32_t index) {
  napi_value value = nullptr;
  return napi_get_element(env, array, index, &value) == napi_ok ? value : nullptr;
}

// Reads one chunk: [rows, data, offsets or null, data, offsets or null, …] and appends its keys.
// Returns the problem, or nullptr where there is none.
const char* append_chunk(napi_env env, napi_value chunk, const std::vector<Type>& types, Keys& keys) {
  uint32_t rows = 0;
  napi_value first = element(env, chunk, 0);
  if (first == nullptr || napi_get_value_uint32(env, first, &rows) != napi_ok) return "a chunk begins with its rows";
  std::vector<Part> parts(types.size());
  for (uint32_t i = 0; i < types.size(); i++) {
    MDB_val data, offsets{0, nullptr};
    napi_value given = element(env, chunk, 2 + 2 * i);
    napi_valuetype type = napi_undefined;
    if (!bytes_of(env, element(env, chunk, 1 + 2 * i), &data)) return "a key column is bytes";
    if (given == nullptr || napi_typeof(env, given, &type) != napi_ok) return "a key column has offsets or null";
    if (type != napi_null && !bytes_of(env, given, &offsets)) return "offsets are bytes";
    if ((reinterpret_cast<uintptr_t>(offsets.mv_data) & 3) != 0) return "offsets are aligned";
    parts[i] = {static_cast<const uint8_t*>(data.mv_data), data.mv_size, static_cast<const int32_t*>(offsets.mv_data)};
    if (!fits(types[i], parts[i], offsets.mv_size / sizeof(int32_t), rows)) return "a key column is shorter than its rows";
  }
  for (size_t row = 0; row < rows; row++) {
    keys.bytes.reserve(keys.bytes.size + types.size() * weir::key_part_written_max);
    uint8_t* out = keys.bytes.data + keys.bytes.size;
    for (size_t i = 0; i < types.size() && out != nullptr; i++) out = write_part(out, types[i], parts[i], row);
    if (out == nullptr) return "this Node has no SHA-256";
    keys.bytes.size = static_cast<size_t>(out - keys.bytes.data);
    keys.begins.push_back(keys.bytes.size);
  }
  return nullptr;
}

// The run's buffer, or a Uint32Array of two rows that have the same key.
napi_value run_of(napi_env env, const Keys& keys, const std::vector<KeyItem>& items) {
  for (size_t i = 1; i < items.size(); i++) {
    if (items[i - 1].high != items[i].high || items[i - 1].low != items[i].low) continue;
    if (compare_rows(keys, items[i - 1].row, items[i].row) != 0) continue;
    const uint32_t a = items[i - 1].row, b = items[i].row;
    const uint32_t pair[] = {std::min(a, b), std::max(a, b)};
    return new_array(env, napi_uint32_array, pair, 2);
  }
  napi_value buffer;
  KeyRunWriter run;
  if (!run.open(env, items.size(), keys.bytes.size, &buffer)) return nullptr;
  for (const KeyItem& item : items) {
    const size_t from = keys.begins[item.row];
    run.add(keys.bytes.data + from, keys.begins[item.row + 1] - from, static_cast<int32_t>(item.row));
  }
  return buffer;
}

}  // namespace

// segmentKeyRun(types, chunks): the KeyRun (ArrayBuffer) of all chunks' rows, numbered from 0, or a
// Uint32Array of two rows that have the same key. `types`: an array of numbers in the order of
// COLUMN_TYPE, one per key column.
napi_value segment_key_run(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  uint32_t type_count = 0, chunk_count = 0;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count != 2 ||
      napi_get_array_length(env, arguments[0], &type_count) != napi_ok ||
      napi_get_array_length(env, arguments[1], &chunk_count) != napi_ok)
    return throw_usage(env, "segmentKeyRun takes types and chunks");
  std::vector<Type> types;
  for (uint32_t i = 0; i < type_count; i++) {
    int32_t type = -1;
    napi_get_value_int32(env, element(env, arguments[0], i), &type);
    if (type < 0 || type >= static_cast<int32_t>(Type::json)) return throw_usage(env, "no key column has this type");
    types.push_back(static_cast<Type>(type));
  }
  Keys keys;
  keys.begins.push_back(0);
  for (uint32_t i = 0; i < chunk_count; i++) {
    napi_handle_scope scope;  // so that many chunks do not pile up handles
    if (napi_open_handle_scope(env, &scope) != napi_ok) return nullptr;
    const char* problem = append_chunk(env, element(env, arguments[1], i), types, keys);
    napi_close_handle_scope(env, scope);
    if (problem != nullptr) return throw_usage(env, problem);
  }
  if (keys.bytes.size > INT32_MAX) return throw_usage(env, "the keys of a segment are below 2 GiB");
  return run_of(env, keys, sorted_items(keys));
}
