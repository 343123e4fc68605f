// Makes Arrow's offsets and bytes of the texts of a DuckDB chunk. The specification is
// gatherTextsJs in ../arrow/duckdb-vectors.ts.
#include <cstring>

#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"

namespace query {

namespace {

// DuckDB's string_t: the text itself, or its first 4 bytes and a pointer to all of it.
struct Text {
  uint32_t length;
  char rest[12];

  const char* data() const {
    if (length <= sizeof rest) return rest;
    const char* pointer;
    std::memcpy(&pointer, rest + 4, sizeof pointer);
    return pointer;
  }
};
static_assert(sizeof(Text) == 16 && sizeof(void*) == 8, "as DuckDB lays it out");

// Returns false if the texts do not fit.
bool gather(const Array<uint8_t>& values, const uint8_t* valid, uint32_t from, uint32_t to, int32_t* offsets,
            const Array<uint8_t>& data) {
  const Text* texts = reinterpret_cast<const Text*>(values.data);
  size_t at = static_cast<size_t>(*offsets);
  for (uint32_t i = from; i < to; i++) {
    const Text& text = texts[i];
    if (valid == nullptr || (valid[i >> 3] >> (i & 7) & 1)) {
      if (text.length > data.size - at) return false;
      std::memcpy(data.data + at, text.data(), text.length);
      at += text.length;
    }
    *++offsets = static_cast<int32_t>(at);
  }
  return true;
}

// gatherTexts(values, valid, from, to, offsets, data, row) appends rows [from, to) of a vector of
// texts as texts row, row + 1, … of an Arrow column. `values` is DuckDB's memory with pointers into
// it. `valid` has a bit for each row, or is null if no row is null.
napi_value gather_texts(napi_env env, napi_callback_info info) {
  size_t count = 7;
  napi_value arguments[7];
  Array<uint8_t> values, valid, data;
  Array<int32_t> offsets;
  uint32_t from = 0, to = 0, row = 0;
  napi_valuetype valid_type = napi_undefined;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  bool is_good = count >= 7 && read_array(env, arguments[0], napi_uint8_array, values) &&
                 napi_typeof(env, arguments[1], &valid_type) == napi_ok &&
                 (valid_type == napi_null || read_array(env, arguments[1], napi_uint8_array, valid)) &&
                 napi_get_value_uint32(env, arguments[2], &from) == napi_ok &&
                 napi_get_value_uint32(env, arguments[3], &to) == napi_ok &&
                 read_array(env, arguments[4], napi_int32_array, offsets) &&
                 read_array(env, arguments[5], napi_uint8_array, data) &&
                 napi_get_value_uint32(env, arguments[6], &row) == napi_ok;
  is_good = is_good && from <= to && to <= values.size / sizeof(Text) &&
            (valid_type == napi_null || to <= 8 * valid.size) && row < offsets.size && to - from < offsets.size - row &&
            offsets.data[row] >= 0 && static_cast<size_t>(offsets.data[row]) <= data.size && data.size <= INT32_MAX;
  if (!is_good || !gather(values, valid.data, from, to, offsets.data + row, data))
    napi_throw_type_error(env, nullptr, "gatherTexts: the texts do not fit");
  return nullptr;
}

}  // namespace

}  // namespace query

void init_query(napi_env env, napi_value exports) { add_function(env, exports, "gatherTexts", query::gather_texts); }
