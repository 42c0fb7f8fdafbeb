"""Choose the names of a kernel file: no name twice, none that CuTe, C++ or a template uses."""

from __future__ import annotations

from dataclasses import dataclass, field

_RESERVED = frozenset(
    """
    Tensor Layout Shape Stride Int append auto ceil_div clear complement copy cosize crd crd2idx depth fill flatten
    float gemm get group half int2 index layout local_partition local_tile long make_coord make_layout make_shape
    make_stride make_tensor max min partition print prepend product rank recast remove select shape size slice stride
    swap take tensor tile tiled transform tuple underscore unwrap void warp

    ACROSS ACROSS_K AFTER A_EACH A_LINES A_PIECES BK BLOCK BM BN BX BY B_EACH B_LINES B_PIECES CHANNELS COLUMNS
    COPIERS DK DOWN DV E Element FACTS GROUP ITEMS LATE Max Min ONCE Out PLACES RESIDENT RM RN ROWS RX RY Real
    SHIFT SLICES STAGED STAGES STEPS Sum T THREADS TM TN TURNED Times V W WIDTH Wide a a_big a_boxes a_copy a_from
    a_kept a_layout a_memory a_mine a_order a_place a_read a_reader a_slice a_small a_staged a_stages a_tile a_to
    acc across across_slots advance aligned all along_k along_rows at b b_big b_boxes b_copy b_from b_kept
    b_layout b_memory b_mine b_order b_place b_read b_reader b_slice b_small b_staged b_stages b_tile b_to base
    batches before begin begins below best by_columns by_rows by_vector c c_first carry channel_slices
    channel_tiles chunk chunks co cols_here column column_first columns copier copies copy_vector count_d count_h
    count_w counts cv d depth down e e_first each empty end fA fB factor fetch first first_d first_h first_w found
    full g gA gB gK gQ gV h h_first how how_mine how_place i image image_at inner inside is_first is_special item
    j k_bytes k_empty k_full k_kept k_layout k_memory k_mine k_mma k_parity k_read k_reader k_slot k_staged
    k_stages kept kept_vectors kk l lane largest last line look lost m mMarks mShares m_first m_left memory mine
    mma multiply_keys multiply_values n n_first n_left next next_part next_tile number number_rows od of_slice oh
    oh_first out_buffers outer ow p p_first p_layout p_memory packed pair parity part partial parts phase place
    place_of place_tiles places plain_sum plane planes q_full q_kept q_layout q_memory q_place q_read q_reader
    q_staged queries r rank rA rB rC rK rO rP rQ rS rSeen rV reach_d reach_h reach_w read release_keys release_values
    results ring round_weights row row_memory s sA sB sC sK sP sQ sRow sSeen sV scores second seen seen_memory
    share shared slices slot slots slots_to so_far soften some special stage sums tA tB taps td th thread
    tile_memory tiles tiles_h tiles_w tm tn total turn tw v vA vB v_bytes v_empty v_full v_kept v_layout v_memory
    v_mine v_mma v_parity v_read v_reader v_slot v_staged v_stages valid value values vd vectors vh vw w wA wB
    CLUSTER cluster sharers w_first w_wanted wanted weight_at weights where
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)
"""Names of CuTe, C++ and of the templates' own variables: a tensor of such a name gets an underscore."""


@dataclass
class Naming:
    """The names that all kernels of a file share.

    Attributes:
        lets: expression -> name in `[let]`.
        tensors: tensor of the plan -> name in C++.
    """

    taken: set[str]
    lets: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)

    def let(self, wanted: str, expression: str) -> str:
        """Return the name of a number of the plan; the same expression has one name in a file."""
        if expression not in self.lets:
            name = fresh(wanted, self.taken | _RESERVED)
            self.taken.add(name)
            self.lets[expression] = name
        return self.lets[expression]

    def tensor(self, name: str) -> str:
        """Return the C++ name of a tensor: its own unless CuTe or C++ uses it."""
        if name not in self.tensors:
            self.tensors[name] = f"{name}_" if name in _RESERVED else name
        return self.tensors[name]


def fresh(wanted: str, taken: set[str]) -> str:
    """Return `wanted`, with a number after it if the name is taken."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}{number}", number + 1
    taken.add(name)
    return name
