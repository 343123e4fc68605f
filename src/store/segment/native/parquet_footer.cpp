// The footer: schema, row groups with their column chunks, key-value metadata (parquet.thrift,
// FileMetaData).
#include "parquet.h"
#include "parquet_thrift.h"

namespace parquet {

namespace {

constexpr int NO_CONVERTED_TYPE = -1;

struct Stored {
  int physical, converted;
};

Stored stored_as(Type type) {
  switch (type) {
    case BOOLEAN: return {0, NO_CONVERTED_TYPE};
    case INT8: return {1, 15};
    case INT16: return {1, 16};
    case INT32: return {1, NO_CONVERTED_TYPE};
    case DATE: return {1, 6};
    case INT64: return {2, NO_CONVERTED_TYPE};
    case TIMESTAMP: return {2, 10};
    case FLOAT: return {4, NO_CONVERTED_TYPE};
    case DOUBLE: return {5, NO_CONVERTED_TYPE};
    case STRING: case JSON: break;
  }
  return {6, 0};
}

void put_logical_type(Thrift& out, Type type) {
  if (type == STRING || type == JSON) out.empty(1);
  else if (type == DATE) out.empty(6);
  else if (type == TIMESTAMP) {
    out.begin(8);
    out.boolean(1, true);  // UTC
    out.begin(2), out.empty(2), out.end();  // microseconds
    out.end();
  } else {
    out.begin(10);
    out.i8(1, type == INT8 ? 8 : 16);
    out.boolean(2, true);  // signed
    out.end();
  }
}

void put_schema(Thrift& out, const std::vector<Column>& columns) {
  out.list(2, Thrift::STRUCT, columns.size() + 1);
  out.begin();
  out.bytes(4, "schema");
  out.i32(5, static_cast<int32_t>(columns.size()));
  out.end();
  for (const Column& column : columns) {
    const Stored stored = stored_as(column.type);
    out.begin();
    out.i32(1, stored.physical);
    out.i32(3, column.flags & OPTIONAL ? 1 : 0);
    out.bytes(4, column.name);
    if (stored.converted != NO_CONVERTED_TYPE) {
      out.i32(6, stored.converted);
      out.begin(10), put_logical_type(out, column.type), out.end();
    }
    out.end();
  }
}

void put_statistics(Thrift& out, const Statistics& statistics) {
  out.begin(12);
  out.i64(3, static_cast<int64_t>(statistics.nulls));
  if (statistics.has_min_max) {
    out.bytes(5, Text{statistics.max, statistics.max_size});
    out.bytes(6, Text{statistics.min, statistics.min_size});
    out.boolean(7, true);  // both are exact
    out.boolean(8, true);
  }
  out.end();
}

void put_page_count(Thrift& out, int page_type, Encoding encoding, int count) {
  out.begin();
  out.i32(1, page_type);
  out.i32(2, encoding);
  out.i32(3, count);
  out.end();
}

void put_column_chunk(Thrift& out, const Column& column, const Chunk& chunk) {
  const bool has_dictionary = chunk.dictionary_offset >= 0;
  out.begin();
  out.i64(2, 0);  // the format wants this field and wants it to be zero
  out.begin(3);
  out.i32(1, stored_as(column.type).physical);
  out.list(2, Thrift::I32, has_dictionary ? 3 : 2);
  out.element(PLAIN), out.element(RLE);
  if (has_dictionary) out.element(RLE_DICTIONARY);
  out.list(3, Thrift::BINARY, 1);
  out.element(column.name);
  out.i32(4, chunk.codec);
  out.i64(5, chunk.rows);
  out.i64(6, chunk.uncompressed_bytes);
  out.i64(7, chunk.bytes);
  out.i64(9, chunk.data_offset);
  if (has_dictionary) out.i64(11, chunk.dictionary_offset);
  if (column.flags & STATISTICS) put_statistics(out, chunk.statistics);
  out.list(13, Thrift::STRUCT, has_dictionary ? 2 : 1);
  if (has_dictionary) put_page_count(out, 2, PLAIN, 1);
  put_page_count(out, 0, has_dictionary ? RLE_DICTIONARY : PLAIN, chunk.pages);
  out.end();
  out.end();
}

void put_row_group(Thrift& out, const std::vector<Column>& columns, const Chunk* chunks, int16_t ordinal) {
  int64_t uncompressed = 0, bytes = 0;
  for (size_t c = 0; c < columns.size(); c++) uncompressed += chunks[c].uncompressed_bytes, bytes += chunks[c].bytes;
  out.begin();
  out.list(1, Thrift::STRUCT, columns.size());
  for (size_t c = 0; c < columns.size(); c++) put_column_chunk(out, columns[c], chunks[c]);
  out.i64(2, uncompressed);
  out.i64(3, chunks[0].rows);
  out.i64(5, chunks[0].offset);
  out.i64(6, bytes);
  out.i16(7, ordinal);
  out.end();
}

}  // namespace

void put_footer(Sink& file, const std::vector<Column>& columns, const std::vector<Text>& pairs, size_t rows,
                const std::vector<Chunk>& chunks) {
  const size_t begin = file.size(), groups = chunks.size() / columns.size();
  Thrift out(file);
  out.begin();
  out.i32(1, 1);
  put_schema(out, columns);
  out.i64(3, static_cast<int64_t>(rows));
  out.list(4, Thrift::STRUCT, groups);
  for (size_t g = 0; g < groups; g++)
    put_row_group(out, columns, chunks.data() + g * columns.size(), static_cast<int16_t>(g));
  if (!pairs.empty()) out.list(5, Thrift::STRUCT, pairs.size() / 2);
  for (size_t p = 0; p + 1 < pairs.size(); p += 2) {
    out.begin();
    out.bytes(1, pairs[p]);
    out.bytes(2, pairs[p + 1]);
    out.end();
  }
  out.bytes(6, "weir");
  out.list(7, Thrift::STRUCT, columns.size());
  // Each column has the order of its type.
  for (size_t c = 0; c < columns.size(); c++) out.begin(), out.empty(1), out.end();
  out.end();
  const uint32_t length = static_cast<uint32_t>(file.size() - begin);
  file.put(&length, 4);
  file.put("PAR1", 4);
}

}  // namespace parquet
