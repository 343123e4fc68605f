"""What others make of a segment's file: python examples/read_segment.py data/segment/*/*.parquet

Types and statistics as pyarrow, Polars, DuckDB and chDB see them. A segment holds rows that were replaced or deleted since:
for the live rows alone see read_pool.py, or weir export. pip install pyarrow polars duckdb chdb (those that are missing are left out).
"""
import sys


def with_pyarrow(file):
    import pyarrow.dataset as dataset
    import pyarrow.parquet as parquet

    opened = parquet.ParquetFile(file)
    groups = opened.metadata.num_row_groups
    print(f"  {opened.metadata.num_rows} rows, {groups} row groups, by {opened.metadata.created_by}")
    for index, field in enumerate(opened.schema_arrow):
        chunk = opened.metadata.row_group(0).column(index)
        known = chunk.statistics
        logical = opened.schema.column(index).logical_type
        range_ = f"{known.min!r} to {known.max!r}" if known and known.has_min_max else "no range"
        print(f"  {field.name}: {field.type}, {logical}, {range_[:90]}, nulls {known.null_count if known else '?'}")


    fragment = next(dataset.dataset(file).get_fragments())
    rows_of_last = dataset.field("_service_sequence") >= parquet.read_table(file)["_service_sequence"][-1].as_py()
    left = len(fragment.split_by_row_group(rows_of_last))
    print(f"  row groups that may hold the last row's sequence: {left} of {groups}")


def with_polars(file):
    import polars

    for name, type_ in polars.scan_parquet(file).collect_schema().items():
        print(f"  {name}: {type_}")
    print(f"  {polars.read_parquet(file).height} rows")


def with_duckdb(file):
    import duckdb

    for name, type_, *_ in duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall():
        print(f"  {name}: {type_}")
    print("  rows", duckdb.execute("SELECT count(*) FROM read_parquet(?)", [file]).fetchone()[0])


def with_chdb(file):
    import chdb

    print("  " + str(chdb.query(f"DESCRIBE file('{file}', Parquet)", "TabSeparated")).strip().replace("\t\t\t\t\t", "").replace("\n", "\n  "))
    print("  rows", str(chdb.query(f"SELECT count() FROM file('{file}', Parquet)", "TabSeparated")).strip())


if len(sys.argv) < 2:
    sys.exit("usage: python examples/read_segment.py <data folder>/segment/<pool>/<file>.parquet ...")
for path in sys.argv[1:]:
    for reader in (with_pyarrow, with_polars, with_duckdb, with_chdb):
        print(f"{path} {reader.__name__.replace('with_', '')}")
        try:
            reader(path)
        except ImportError as error:
            print(f"  {error}")
