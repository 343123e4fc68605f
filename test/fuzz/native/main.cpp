// Drives the kernel's core without Node, for a build with sanitizers: `driver SEED SECONDS
// FILE...`.
//
// Each file is parsed as a body as it stands, then in mutated forms until the time is over, alone
// and as an event of an array. A body stands in memory of exactly its size: a byte read behind it
// is an error that stops the run.
#include <chrono>
#include <cstdio>

#include "../../../src/parse/native/kernel.h"

using weir::Kernel;
using weir::PoolSchema;
using weir::SchemaColumn;
using weir::Type;
using Bytes = std::vector<uint8_t>;

static uint64_t state;

// xorshift64*: a number below `limit`.
static size_t below(size_t limit) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return static_cast<size_t>((state * 0x2545f4914f6cdd1dull) >> 33) % limit;
}

static PoolSchema make_schema(bool required, bool deletes) {
  PoolSchema schema;
  const char* properties[] = {"t", "b", "a.b.d", "", "key", "k2", "a.b.c", "\xc3\xa9", "d", "e", "f"};
  for (int32_t type = 0; type < weir::type_count; type++)
    schema.columns.push_back({static_cast<Type>(type), required, deletes, properties[type]});
  schema.columns.push_back({Type::string, true, false, "id"});
  schema.columns.push_back({Type::timestamp, true, true, "time"});
  schema.columns.push_back({Type::json, false, false, "a"});
  schema.deletes = deletes;
  schema.key = {weir::key_received_at, weir::type_count, weir::type_count + 1};
  return schema;
}

static size_t parse(Kernel& kernel, const Bytes& body, int flags) {
  uint8_t* slab = static_cast<uint8_t*>(std::malloc(body.size() + 1));
  if (!body.empty()) std::memcpy(slab + 1, body.data(), body.size());
  double row[weir::request_words] = {1, static_cast<double>(body.size()), static_cast<double>(flags), 1.7e12, -1};
  if (kernel.parse(slab, body.size() + 1, row, 1) != nullptr) std::abort();
  std::vector<uint8_t> batch(kernel.batch_bytes());
  kernel.write_batch(batch.data());
  std::free(slab);
  return kernel.outcomes().data[1];
}

static void append(Bytes& to, const char* text) { to.insert(to.end(), text, text + std::strlen(text)); }

// An event that holds the body under a key that the schemas read.
static Bytes wrapped(const Bytes& body) {
  static const char* keys[] = {"t", "b", "a.b.d", "", "key", "a", "d", "e", "f", "zz"};
  Bytes event;
  append(event, "[{\"id\":\"1\",\"time\":\"2026-01-02T03:04:05.678Z\",\"a\":{\"b\":{\"c\":1}},\"");
  append(event, keys[below(10)]);
  append(event, "\":");
  event.insert(event.end(), body.begin(), body.end());
  append(event, "},{}]");
  return event;
}

static void mutate(Bytes& body) {
  static const char pieces[] = "{}[]\",:\\u0\x80\xff \n-+.eE19tfnd8DcTZ";
  for (size_t changes = below(4); changes > 0 && !body.empty(); changes--) {
    size_t at = below(body.size());
    switch (below(4)) {
      case 0: body[at] = static_cast<uint8_t>(pieces[below(sizeof pieces - 1)]); break;
      case 1: body.erase(body.begin() + at); break;
      case 2: body.insert(body.begin() + at, static_cast<uint8_t>(pieces[below(sizeof pieces - 1)])); break;
      default: body[at] ^= static_cast<uint8_t>(1u << below(8)); break;
    }
  }
}

static bool read_file(const char* path, Bytes* out) {
  FILE* file = std::fopen(path, "rb");
  if (file == nullptr) return false;
  uint8_t chunk[4096];
  for (size_t read; (read = std::fread(chunk, 1, sizeof chunk, file)) > 0;) out->insert(out->end(), chunk, chunk + read);
  std::fclose(file);
  return true;
}

int main(int count, char** words) {
  if (count < 4) return 2;
  state = std::strtoull(words[1], nullptr, 10) | 1;
  double seconds = std::strtod(words[2], nullptr);
  std::vector<Bytes> corpus;
  for (int i = 3; i < count; i++) {
    Bytes body;
    if (!read_file(words[i], &body)) return 2;
    corpus.push_back(std::move(body));
  }
  Kernel kernels[] = {Kernel(make_schema(false, false)), Kernel(make_schema(true, false)), Kernel(make_schema(false, true))};
  size_t bodies = 0, rows = 0;
  for (const Bytes& body : corpus)
    for (Kernel& kernel : kernels) rows += parse(kernel, body, 0) + parse(kernel, wrapped(body), 1), bodies += 2;
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    // The first files are events of ours: half of all, since few mutations of the suite are events.
    Bytes body = corpus[below(below(2) == 0 ? 4 : corpus.size())];
    if (body.size() > 20000) continue;
    if (below(2) == 0) body = wrapped(body);
    mutate(body);
    if (below(4) == 0) body = wrapped(body);
    rows += parse(kernels[below(3)], body, static_cast<int>(below(2)));
    bodies++;
  }
  // Without a row the schemas do not fit the events, and nothing of values and keys was run.
  std::printf("%zu files, %zu bodies, %zu rows: %s\n", corpus.size(), bodies, rows, rows > 0 ? "no finding" : "FAILED, no event was valid");
  return rows > 0 ? 0 : 1;
}
