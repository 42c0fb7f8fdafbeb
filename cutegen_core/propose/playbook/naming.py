"""Choose the names of a kernel file: no name twice, none that CuTe, C++ or a template uses."""

from __future__ import annotations

from dataclasses import dataclass, field

_RESERVED = frozenset(
    """
    Tensor Layout Shape Stride Int append auto ceil_div clear complement copy cosize crd crd2idx depth fill flatten
    float gemm get group half int2 index layout local_partition local_tile long make_coord make_layout make_shape
    make_stride make_tensor max min partition print prepend product rank recast remove select shape size slice stride
    swap take tensor tile tiled transform tuple underscore unwrap void warp

    ACROSS_K AFTER A_EACH BK BLOCK BM BN BX BY B_EACH CHANNELS COLUMNS DK DV GROUP ITEMS LATE Max Min ONCE PLACES
    RESIDENT RM RN ROWS SLICES STEPS Sum T THREADS TM TN Times V WIDTH Wide a a_big a_kept a_layout a_memory
    a_order a_place a_read a_reader a_small a_staged a_tile a_to acc across all along_k b b_big b_kept b_layout
    b_memory b_order b_place b_read b_reader b_small b_staged b_tile b_to base before begins below best by_vector
    c_first carry channel_tiles chunk chunks cols_here column column_first columns copier copy_vector count_d
    count_h count_w counts cv d depth e e_first end fA fB fetch first first_d first_h first_w g gA gB gK gQ gV h
    h_first how i image image_at inner inside item j k_layout k_memory kept kk l largest m m_first m_left memory
    mine mma n n_left next number number_rows od of_slice oh outer ow p p_first p_layout p_memory packed part
    phase place place_tiles places plane q_layout q_memory rA rB rC rO reach_d reach_h reach_w read row row_memory
    sA sB sK sP sQ sRow sV seen shared slices slot so_far stage sums tA tB taps td th tile_memory tiles_h tiles_w
    tm tn total tw v v_layout v_memory valid value vd vectors vh vw w w_wanted wanted weight_at
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
            self.lets[expression] = fresh(wanted, self.taken)
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
