"""Parts of a sweep: points, their order by a static model, halving by measured time, the cache of measured points."""
