// parquetEncode: the arguments become columns, and the columns a file. Every place, and every
// offset of a text, is checked against the stream before a byte of it is read. Offsets of texts
// that stayed in their batches agree with the batches.
#include "parquet.h"

#include "../../../parse/native/schema.h"
#include "../../../util/native/addon.h"
#include "../../../util/native/typed_array.h"
#include "assembler.h"

namespace parquet {

namespace {

constexpr size_t HEAD_WORDS = 2, COLUMN_WORDS = 5, ARGUMENTS = 5, SOURCE_ARGUMENTS = 4;
// Lengths in a page header are 32 bits.
constexpr size_t STREAM_BYTES_MAX = size_t{1} << 30;

// Sums and checks offsets without a branch per row: ascending from 0, their end inside the stream.
bool ascend(const int32_t* offsets, size_t rows, size_t bytes_max) {
  uint32_t sign = static_cast<uint32_t>(offsets[0]);
  if (offsets[0] != 0) return false;
  for (size_t row = 0; row < rows; row++)
    sign |= static_cast<uint32_t>(offsets[row + 1]) |
            (static_cast<uint32_t>(offsets[row + 1]) - static_cast<uint32_t>(offsets[row]));
  return sign >> 31 == 0 && static_cast<size_t>(offsets[rows]) <= bytes_max;
}

// The payloads that are not in the stream: those of the winning rows of the batches, in order.
struct Source {
  std::vector<segment::Entry> entries;
  Array<uint8_t> keep;  // empty where none are given
};

// False when the batches do not hold the column's rows.
bool find_pieces(const Source& source, size_t rows, Column& column) {
  size_t row = 0;
  bool is_good = true;
  segment::each_run(source.entries, source.keep.data, [&](const segment::Entry& entry, uint32_t from, uint32_t to) {
    is_good = is_good && to - from <= rows - row;
    if (!is_good) return;
    const segment::Column payload = entry.column(0);
    const size_t end = row + (to - from);
    is_good = column.offsets[end] - column.offsets[row] == payload.offsets[to] - payload.offsets[from];
    column.pieces.push_back({end, payload.data + payload.offsets[from], column.offsets[row]});
    row = end;
  });
  return is_good && row == rows;
}

// Words of a column: type, flags, places of validity, offsets and data (-1 where there is none).
bool read_column(const double* words, size_t rows, const Array<uint8_t>& stream, const Source& source, Column& column) {
  if (!(words[0] >= BOOLEAN && words[0] <= JSON && words[1] >= 0 && words[1] < 8)) return false;
  column.type = static_cast<Type>(words[0]);
  column.flags = static_cast<int>(words[1]);
  const uint8_t* places[3] = {nullptr, nullptr, nullptr};
  const size_t bits = (rows + 7) / 8, width = weir::width_of(weir::kind_of(static_cast<weir::Type>(column.type)));
  const size_t bytes[3] = {bits, 4 * (rows + 1), column.type == BOOLEAN ? bits : width * rows};
  size_t at[3] = {};
  for (int i = 0; i < 3; i++) {
    const double place = words[2 + i];
    if (place == -1) continue;
    if (!(place >= 0 && place <= static_cast<double>(stream.size))) return false;
    at[i] = static_cast<size_t>(place);
    if (at[i] % 8 != 0 || stream.size - at[i] < bytes[i]) return false;
    places[i] = stream.data + at[i];
  }
  column.validity = places[0];
  column.offsets = reinterpret_cast<const int32_t*>(places[1]);
  column.data = places[2];
  if (column.is_text() != (column.offsets != nullptr)) return false;
  if (column.validity != nullptr && !(column.flags & OPTIONAL)) return false;
  if (column.data != nullptr) return column.offsets == nullptr || ascend(column.offsets, rows, stream.size - at[2]);
  // The payload column has pages only: no statistics, no dictionary, no nulls.
  return column.type == JSON && column.flags == 0 && source.keep.size > 0 &&
         ascend(column.offsets, rows, STREAM_BYTES_MAX) && find_pieces(source, rows, column);
}

// Reads the optional arguments behind the first five.
bool read_source(napi_env env, size_t count, napi_value* arguments, Source& source) {
  if (count == 0) return true;
  if (count < SOURCE_ARGUMENTS || !segment::read_entries(env, arguments, source.entries) ||
      !read_array(env, arguments[3], napi_uint8_array, source.keep))
    return false;
  size_t rows = 0;
  for (const segment::Entry& entry : source.entries) rows += entry.rows;
  return rows == source.keep.size;
}

bool read_texts(const Array<uint8_t>& text, const Array<double>& lengths, std::vector<Text>& texts) {
  size_t at = 0;
  for (size_t i = 0; i < lengths.size; i++) {
    if (!(lengths.data[i] >= 0 && lengths.data[i] <= static_cast<double>(text.size - at))) return false;
    texts.push_back({text.data + at, static_cast<size_t>(lengths.data[i])});
    at += texts.back().size;
  }
  return at == text.size;
}

size_t write_file(Sink& file, const std::vector<Column>& columns, const std::vector<Text>& pairs, size_t rows,
                  size_t group_rows) {
  Workspace workspace;
  std::vector<Chunk> chunks;
  file.put("PAR1", 4);
  for (size_t from = 0; from < rows && !file.is_full; from += group_rows)
    for (const Column& column : columns)
      chunks.push_back(put_chunk(file, workspace, column, from, rows - from > group_rows ? from + group_rows : rows));
  put_footer(file, columns, pairs, rows, chunks);
  return file.is_full ? 0 : file.size();
}

}  // namespace

napi_value encode(napi_env env, napi_callback_info info) {
  size_t count = ARGUMENTS + SOURCE_ARGUMENTS;
  napi_value arguments[ARGUMENTS + SOURCE_ARGUMENTS], result;
  Source source;
  Array<uint8_t> stream, out, text;
  Array<double> words, lengths;
  napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr);
  const bool is_read = count >= ARGUMENTS && read_array(env, arguments[0], napi_uint8_array, stream) &&
                       read_array(env, arguments[1], napi_uint8_array, out) &&
                       read_array(env, arguments[2], napi_float64_array, words) &&
                       read_array(env, arguments[3], napi_uint8_array, text) &&
                       read_array(env, arguments[4], napi_float64_array, lengths) &&
                       read_source(env, count - ARGUMENTS, arguments + ARGUMENTS, source);
  const size_t column_count = is_read && words.size > HEAD_WORDS ? (words.size - HEAD_WORDS) / COLUMN_WORDS : 0;
  std::vector<Column> columns(column_count);
  std::vector<Text> texts;
  bool is_good = column_count > 0 && stream.size <= STREAM_BYTES_MAX && words.data[0] >= 1 &&
                 words.data[0] <= INT32_MAX && words.data[1] >= 8 && words.data[1] <= INT32_MAX &&
                 reinterpret_cast<uintptr_t>(stream.data) % 8 == 0 && read_texts(text, lengths, texts) &&
                 texts.size() >= column_count;
  const size_t rows = is_good ? static_cast<size_t>(words.data[0]) : 0;
  const size_t group_rows = is_good ? static_cast<size_t>(words.data[1]) : 0;
  is_good = is_good && group_rows % 8 == 0;
  for (size_t c = 0; c < column_count && is_good; c++) {
    is_good = read_column(words.data + HEAD_WORDS + COLUMN_WORDS * c, rows, stream, source, columns[c]);
    columns[c].name = texts[c];
  }
  if (!is_good) {
    bool is_thrown = false;
    napi_is_exception_pending(env, &is_thrown);
    if (!is_thrown) napi_throw_type_error(env, nullptr, "parquetEncode: the columns are not in the stream");
    return nullptr;
  }
  Sink file(out.data, out.size);
  texts.erase(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(column_count));
  napi_create_double(env, static_cast<double>(write_file(file, columns, texts, rows, group_rows)), &result);
  return result;
}

}  // namespace parquet
